"""What is shown while a callable is evaluated, and that watching, sharing and remembering change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af

LINE = {"x": (-1, 1)}


def wavy(x):
    return np.sin(8 * x) + np.abs(x - 0.25)


def digest(**options):
    return af.compile(wavy, LINE, 1e-4, **options).certificate.digest


def test_nothing_is_shown_unless_asked_for(capfd):
    af.compile(wavy, LINE, 1e-2)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_callable_can_be_watched_on_the_error_stream(capsys):
    net = af.compile(wavy, LINE, 1e-4, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "trying tensor_grid" in captured.err
    assert net.certificate.estimate.error <= 1e-4


def test_the_bar_ends_where_the_target_fails(capsys):
    def failing(x):
        raise ValueError("no value here")

    with pytest.raises(af.TargetError, match="no value here"):
        af.compile(failing, LINE, progress=True)
    capsys.readouterr()
    af.compile(wavy, LINE, 1e-2, progress=True)  # one live display at a time
    assert "trying" in capsys.readouterr().err


def test_watching_sharing_and_remembering_do_not_change_the_network(tmp_path, capsys):
    plain, cache = digest(), tmp_path / "values.samples"
    for options in ({}, {"progress": True}, {"workers": 2}, {"cache": cache}, {"cache": cache}):
        assert digest(**options) == plain
    assert cache.stat().st_size > 512
    assert af.compile(wavy, LINE, 1e-5).certificate.digest != plain
