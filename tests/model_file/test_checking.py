"""The public ``check``: a path in, a verdict out."""

import math
from dataclasses import replace

import pytest

import attnforge as af
from attnforge.model_file import check, write
from tests.attacks.files import join, split
from tests.model_file.kinds import KINDS, stored

VERDICTS = {"callable": "unprovable", "joint callable": "unprovable"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gets_its_verdict(kind, tmp_path):
    write(stored(KINDS[kind]()), tmp_path / "net")
    found = check(tmp_path / "net", workers=1)
    assert found.verdict == VERDICTS.get(kind, "confirmed"), found.reason


def test_progress_is_a_fraction_and_few_cells_do_not_decide(tmp_path):
    write(stored(KINDS["formula of two inputs"]()), tmp_path / "net")
    told: list[float] = []
    found = check(tmp_path / "net", cells=2, workers=1, progress=lambda fraction, _: told.append(fraction))
    assert found.verdict == "undecided"
    assert all(0 <= fraction <= 1 for fraction in told)


def test_a_false_bound_is_refuted_with_a_witness(tmp_path):
    model = stored(KINDS["formula"]())
    bound = model.certificate.bound / 2
    lie = replace(model, certificate=replace(model.certificate, bound=bound, parts={"fit": bound}))
    write(lie, tmp_path / "net")
    found = check(tmp_path / "net", workers=1)
    assert (found.verdict, found.what) == ("rejected", "bound")
    net = af.Compiled(model.network, model.target, model.certificate, model.construction, model.dtype)
    x = found.outcome.at[0]
    assert abs(net(x=x) - math.sin(3 * x)) > bound


def test_a_true_certificate_in_an_altered_file_is_rejected(tmp_path):
    write(stored(KINDS["formula"]()), tmp_path / "net")
    metadata, arrays = split(tmp_path / "net")
    found = check(join(tmp_path / "net", metadata | {"reason": "another"}, arrays), workers=1)
    assert (found.verdict, found.what) == ("rejected", "certificate")
    assert "its digest does not match" in found.reason
    assert found.outcome.verdict == "confirmed"  # what was looked at is still told


def test_sizes_are_limited(tmp_path):
    write(stored(KINDS["table"]()), tmp_path / "net")
    with pytest.raises(af.FileFormatError, match="between 9 and 50 bytes"):
        check(tmp_path / "net", max_bytes=50)
