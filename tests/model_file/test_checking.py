"""The public ``check``: a path in, a verdict out."""

from dataclasses import replace

import attnforge as af
from tests.attacks.files import join, split
from tests.catalogue import network
from tests.refusals import refused


def saved(name, path, dtype="float64", **changes):
    """The file of a network of the catalogue, of whose certificate something else may be said."""
    net = network(name, dtype)
    replace(net, certificate=replace(net.certificate, **changes)).save(path)
    return path


def test_progress_is_a_fraction_and_few_cells_do_not_decide(tmp_path):
    told: list[float] = []
    path = saved("grid", tmp_path / "net")
    found = af.check(path, cells=2, workers=1, progress=lambda fraction, _: told.append(fraction))
    assert found.verdict == "undecided"
    assert all(0 <= fraction <= 1 for fraction in told)


def test_a_true_certificate_in_an_altered_file_is_rejected(tmp_path):
    metadata, arrays = split(saved("sine", tmp_path / "net"))
    found = af.check(join(tmp_path / "net", metadata | {"reason": "another"}, arrays), workers=1)
    assert (found.verdict, found.what) == ("rejected", "certificate")
    assert found.outcome.verdict == "confirmed"  # what was looked at is still told


def test_sizes_are_limited(tmp_path):
    with refused(af.FileFormatError):
        af.check(saved("table", tmp_path / "net"), max_bytes=50)
