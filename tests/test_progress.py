"""What is shown while a callable is evaluated, and that watching, sharing and remembering change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from attnforge.progress import watched

LINE = {"x": (-1, 1)}


def wavy(x):
    return np.sin(8 * x) + np.abs(x - 0.25)


def digest(**options):
    return af.compile(wavy, LINE, 1e-4, **options).certificate.digest


def test_nothing_is_shown_unless_asked_for(capfd):
    with watched(False) as watch:
        watch.say("a remark")
    af.compile(wavy, LINE, 1e-2)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_the_bar_and_its_remarks_go_to_the_error_stream(capsys):
    with watched(True) as watch:
        watch.rows(3, 10)
        watch.say("trying [bold]this[/bold]")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "trying [bold]this[/bold] ..." in captured.err


def test_a_callable_can_be_watched(capsys):
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
    with watched(True) as watch:  # rich allows one live display at a time
        watch.say("again")
    assert "again" in capsys.readouterr().err


def test_watching_sharing_and_remembering_do_not_change_the_network(tmp_path, capsys):
    plain = digest()
    assert digest() == plain
    assert digest(progress=True) == plain
    assert digest(workers=2) == plain
    cache = tmp_path / "values.samples"
    assert digest(cache=cache) == plain
    assert cache.stat().st_size > 512
    assert digest(cache=cache) == plain
    assert af.compile(wavy, LINE, 1e-5).certificate.digest != plain


def test_a_second_run_asks_the_callable_for_almost_nothing(tmp_path):
    asked = []

    def counted(x):
        asked.append(np.size(x))
        return wavy(x)

    counts = []
    for _ in range(2):
        asked.clear()
        af.compile(counted, LINE, 1e-4, cache=tmp_path / "values.samples")
        counts.append(sum(asked))
    assert counts[1] < min(600, 0.1 * counts[0])  # structure is looked for anew, at that many points
