import json
from dataclasses import replace
from pathlib import Path

import pytest

import attnforge as af
from attnforge.cli.certify import disagreement


def test_an_honest_file_is_confirmed(run, model: Path) -> None:
    result = run("certify", model)
    assert result.exit_code == 0
    assert "confirmed: the stored bound follows" in result.stdout
    assert "NOT" not in result.stdout


def test_json(run, model: Path, net: af.Compiled) -> None:
    data = json.loads(run("certify", model, "--json").stdout)
    assert (data["confirmed"], data["problem"]) == (True, None)
    assert data["stored"]["bound"] == data["recomputed"]["bound"] == net.certificate.bound


def test_a_bound_below_the_provable_one_is_code_4(run, forged: Path) -> None:
    result = run("certify", forged)
    assert result.exit_code == 4
    assert "NOT confirmed: the stored bound" in result.stdout
    data = json.loads(run("certify", forged, "--json").stdout)
    assert data["confirmed"] is False
    assert data["stored"]["bound"] < data["recomputed"]["bound"]


def test_a_network_without_claims_is_proved_all_the_same(run, unclaimed: Path) -> None:
    result = run("certify", unclaimed, "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 0
    assert data["recomputed"]["bound"] == data["stored"]["bound"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where the proof meets infinity
def test_a_network_that_computes_nan_is_code_4(run, overflowing: Path) -> None:
    result = run("certify", overflowing, "--json", "--effort", "low")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["confirmed"] is False


def test_a_damaged_file_is_code_5(run, damaged: Path) -> None:
    assert run("certify", damaged).exit_code == 5


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"bound": 1.0}, None),
        ({"bound": 1e-3}, "below the proved one"),
        ({"bound": None, "status": "sampled"}, "states no bound"),
        ({"norm": "l1"}, "norm"),
        ({"assumptions": ()}, "assumption"),
        ({"status": "conditional"}, None),
    ],
)
def test_what_a_stored_certificate_may_say(net: af.Compiled, change: dict[str, object], problem: str | None) -> None:
    found = disagreement(replace(net.certificate, **change), net.certificate)
    assert found is None if problem is None else problem in found


def test_proved_does_not_follow_from_conditional(net: af.Compiled) -> None:
    assert "conditional" in str(disagreement(net.certificate, replace(net.certificate, status="conditional")))


def test_a_cluster_is_asked_for_before_the_proof(run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnforge.parallel.PATIENCE", 0.5)
    result = run("certify", model, "--cluster", "tcp://127.0.0.1:1")
    assert result.exit_code != 0
    assert "address of a Dask scheduler" in result.stderr
    assert "NOT confirmed" not in result.stdout
    assert "leave out --check" in run("certify", model, "--check", "--cluster", "tcp://127.0.0.1:1").stderr
