"""``attnforge measure``, with and without ``--attack``, ``diagnose`` and ``inspect``: what is found in a file."""

from pathlib import Path

import pytest

import attnforge as af

ATTACK = ("--attack", "--seconds", "0.3")
POINTS = ("--points", "500")


@pytest.fixture(autouse=True)
def _looks_are_milliseconds(clock):
    clock.tick = 1e-3


@pytest.fixture
def soft(saved) -> Path:
    """Attention so soft that it is a fault."""
    return saved("soft", af.constructions.truncated_linear([1.0], 0, -1, 1, anchors=21, sharpness=5.0))


@pytest.mark.parametrize("options", [POINTS, ATTACK])
def test_an_honest_file_is_within_its_bound(run, data, model: Path, options: tuple[str, ...]) -> None:
    result, told = run("measure", model, *options), data("measure", model, *options, "--seed", 7)
    assert result.exit_code == 0
    assert "x = " in result.stdout
    assert result.stderr == ""  # no bar where nobody looks
    assert told["within_bound"] is True
    assert told["seed"] == 7
    assert 0 < told.get("sup", told.get("error")) <= told["bound"]


def test_measured_is_what_the_library_finds(data, model: Path) -> None:
    told, found = data("measure", model, *POINTS, "--seed", "7"), af.measure(af.load(model), points=500, seed=7)
    assert (told["sup"], told["rms"], told["at"]) == (found.sup, found.rms, found.at.tolist())


@pytest.mark.parametrize("options", [POINTS, ATTACK])
def test_a_beaten_bound_and_nan_are_code_4(run, data, forged: Path, overflowing: Path, options) -> None:
    assert "ABOVE the bound" in run("measure", forged, *options).stdout
    for file in (forged, overflowing):
        assert data("measure", file, *options, code=4)["within_bound"] is False


@pytest.mark.parametrize("options", [POINTS, ATTACK])
def test_a_model_on_tokens(data, tokens: Path, options) -> None:
    told = data("measure", tokens, *options)
    assert (len(told["at"]), len(told["at"][0])) == (3, 2)


@pytest.mark.parametrize(
    "options",
    [
        ["--points", "0"],
        ["--points", "99999999999"],
        ["--seed", "-1"],
        ["--seconds", "5"],
        *(["--seconds", seconds, "--attack"] for seconds in ("0", "-1", "1e9", "nan")),
    ],
)
def test_absurd_numbers_are_refused_at_once(run, model: Path, options: list[str]) -> None:
    result = run("measure", model, *options)
    assert (result.exit_code, options[0].lstrip("-") in result.stderr) == (2, True)


def test_a_healthy_file_and_a_fault(run, data, model: Path, soft: Path, of_code: Path) -> None:
    healthy, ill = run("diagnose", model, "--points", "256"), run("diagnose", soft)
    assert (healthy.exit_code, healthy.stdout.startswith("healthy")) == (0, True)
    assert (ill.exit_code, "uniform attention" in ill.stdout) == (8, True)
    told = data("diagnose", soft, "--seed", "3", code=8)
    assert (told["healthy"], told["findings"][0]["signature"], told["seed"]) == (False, "uniform attention", 3)
    assert len(data("diagnose", of_code)["unknown"]) == 1  # its target is not stored


def test_faults_of_another_dtype_and_of_nan(run, data, saved, overflowing: Path, damaged: Path, model: Path) -> None:
    many = saved("many", af.constructions.truncated_linear([1.0], 0, 2, 4, anchors=400))
    assert run("diagnose", many).exit_code == 0
    assert "lost argmax" in [
        each["signature"] for each in data("diagnose", many, "--dtype", "float16", code=8)["findings"]
    ]
    assert "score overflow" in [each["signature"] for each in data("diagnose", overflowing, code=8)["findings"]]
    assert run("diagnose", damaged).exit_code == 5
    assert run("diagnose", model, "--dtype", "float8").exit_code == 3
    assert run("diagnose", model, "--points", "0").exit_code == 2


def test_inspect_shows_report_and_layers(run, data, model: Path, tokens: Path, net: af.Compiled) -> None:
    result, told = run("inspect", model), data("inspect", model)
    assert f"<= {net.certificate.bound:.4g}" in result.stdout
    assert str(net.network) in result.stdout
    assert told["certificate"]["bound"] == net.certificate.bound
    assert told["certificate"]["digest"] == net.certificate.digest
    linear, attention = told["network"]
    assert linear == {"kind": "linear"}
    assert attention["heads"][0]["keys"] == {"anchor": net.anchors}
    told = data("inspect", tokens)
    assert (told["domain"]["names"], told["construction"]) == (None, "gate")
