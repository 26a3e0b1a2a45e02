"""``attnforge certify``, with and without ``--check``: verdicts, exit codes, and what programs are told."""

from dataclasses import replace
from pathlib import Path

import pytest

import attnforge as af

FIELDS = {"file", "verdict", "what", "reason", "cells", "recomputed", "seen", "at"}


@pytest.fixture
def stating(net: af.Compiled, tmp_path: Path):
    """A file that states another certificate."""

    def save(**change: object) -> Path:
        replace(net, certificate=replace(net.certificate, **change)).save(tmp_path / "f.safetensors")
        return tmp_path / "f.safetensors"

    return save


def test_an_honest_file_is_confirmed(run, data, model: Path, net: af.Compiled) -> None:
    result, told = run("certify", model), data("certify", model)
    assert (result.exit_code, "NOT" in result.stdout) == (0, False)
    assert (told["confirmed"], told["problem"]) == (True, None)
    assert told["stored"]["bound"] == told["recomputed"]["bound"] == net.certificate.bound


def test_a_network_without_claims_is_proved_all_the_same(data, unclaimed: Path) -> None:
    told = data("certify", unclaimed)
    assert told["recomputed"]["bound"] == told["stored"]["bound"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where the proof meets infinity
def test_false_and_unprovable_files(run, data, forged: Path, overflowing: Path, damaged: Path) -> None:
    told = data("certify", forged, code=4)
    assert told["confirmed"] is False
    assert told["stored"]["bound"] < told["recomputed"]["bound"]
    assert "NOT confirmed" in run("certify", forged).stdout
    assert data("certify", overflowing, "--effort", "low", code=4)["confirmed"] is False
    assert run("certify", damaged).exit_code == 5


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"bound": 1.0}, 0),
        ({"bound": 1e-3, "parts": {}, "estimate": None}, 4),
        ({"bound": None, "status": "sampled", "parts": {}}, 4),
        ({"norm": "L1"}, 4),
        ({"assumptions": ()}, 4),
        ({"status": "conditional"}, 0),
    ],
)
def test_what_a_stored_certificate_may_say(data, stating, change: dict[str, object], code: int) -> None:
    told = data("certify", stating(**change), code=code)
    assert (told["problem"] is None) == told["confirmed"] == (code == 0)


def test_a_true_bound_is_checked(run, data, model: Path, net: af.Compiled) -> None:
    result, told = run("certify", model, "--check"), data("certify", model, "--check")
    assert result.stdout.startswith("verdict ")
    assert f"{net.certificate.bound:.6g}" in result.stdout
    assert (told["verdict"], told["what"], told["file"], set(told)) == ("confirmed", None, str(model), FIELDS)
    assert 0 < told["seen"] <= told["recomputed"] <= net.certificate.bound
    assert isinstance(told["cells"], int)
    assert len(told["at"]) == 1


def test_a_false_bound_is_code_4_and_shown_where(run, data, forged: Path) -> None:
    assert "REJECTED" in run("certify", forged, "--check").stdout
    told = data("certify", forged, "--check", code=4)
    assert (told["verdict"], told["what"]) == ("rejected", "bound")
    assert told["seen"] > af.load(forged).certificate.bound
    assert -1 <= told["at"][0] <= 1


def test_an_altered_file_is_code_4_and_named(data, damaged: Path) -> None:
    """Another file than the one that was written is still a file: `inspect` refuses it, the checker says what it is."""
    told = data("certify", damaged, "--check", code=4)
    assert told["what"] in ("network", "domain", "target")
    assert (told["verdict"], told["cells"], told["recomputed"]) == ("rejected", None, None)


def test_what_no_proof_can_be_of_is_code_6(run, data, of_code: Path, stating) -> None:
    told = data("certify", of_code, "--check", code=6)
    assert (set(told), told["verdict"], told["what"], told["cells"]) == (FIELDS, "unprovable", None, None)
    assert "unprovable" in run("certify", of_code, "--check").stdout
    unbounded = stating(status="sampled", bound=None, parts={})
    assert data("certify", unbounded, "--check", code=6)["verdict"] == "unprovable"


def test_too_few_cells_are_code_7(data, model: Path) -> None:
    told = data("certify", model, "--check", "--cells", "1", code=7)
    assert (told["verdict"], told["cells"]) == ("undecided", 1)


@pytest.mark.parametrize("cells", ["0", "-1", "many", "1e3"])
def test_absurd_limits_and_limits_of_no_check_are_refused(run, model: Path, cells: str) -> None:
    result = run("certify", model, "--check", "--cells", cells)
    assert (result.exit_code, "--cells" in result.stderr) == (2, True)
    assert "--check" in run("certify", model, "--cells", "5").stderr


def test_the_help_says_how_many_cells_are_the_limit(run) -> None:
    assert f"({af.Effort().cells})" in run("certify", "--help").stdout.replace("\n", " ")


def test_models_on_tokens_and_a_plane_are_checked(data, tokens: Path, plane: Path) -> None:
    for path in (tokens, plane):
        assert data("certify", path, "--check")["verdict"] == "confirmed"
