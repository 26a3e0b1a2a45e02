"""``attnforge certify --check``: verdicts, exit codes, and what they look like to people and to programs."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.cli import certify
from attnforge.effort import NORMAL
from tests.attacks.files import agreeing, join, split, with_certificate

FIELDS = {"file", "verdict", "what", "reason", "cells", "recomputed", "seen", "at"}


@pytest.fixture(scope="session")
def callable_model(folder: Path) -> Path:
    net = af.compile(lambda x: np.sin(3 * x), af.Box(-1, 1, shape=(1,)), 0.1, lipschitz=3)
    net.save(folder / "callable.safetensors")
    return folder / "callable.safetensors"


def test_a_true_bound_is_confirmed(run, model: Path, net: af.Compiled) -> None:
    result = run("certify", model, "--check")
    assert result.exit_code == 0
    assert result.stdout.startswith("verdict ")
    assert f"confirmed\nreason                   the bound {net.certificate.bound:.6g} holds on all of" in result.stdout
    assert "largest error met" in result.stdout
    assert result.stderr == ""


def test_json(run, model: Path, net: af.Compiled) -> None:
    result = run("certify", model, "--check", "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["verdict"], data["what"], data["file"]) == (0, "confirmed", None, str(model))
    assert set(data) == FIELDS
    assert 0 < data["seen"] <= data["recomputed"] <= net.certificate.bound
    assert isinstance(data["cells"], int)
    assert len(data["at"]) == 1


def test_a_false_bound_is_code_4_and_shown_where(run, forged: Path) -> None:
    result = run("certify", forged, "--check")
    assert result.exit_code == 4
    assert "REJECTED" in result.stdout
    assert "is not true: the error is at least" in result.stdout
    data = json.loads(run("certify", forged, "--check", "--json").stdout)
    assert (data["verdict"], data["what"]) == ("rejected", "bound")
    assert data["seen"] > af.load(forged).certificate.bound
    assert -1 <= data["at"][0] <= 1


def test_an_altered_file_is_code_4_and_named(run, damaged: Path) -> None:
    """Another file than the one that was written is still a file: `inspect` refuses it, the checker says what it is."""
    result = run("certify", damaged, "--check", "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["verdict"]) == (4, "rejected")
    assert data["what"] in ("network", "domain", "target")
    assert data["cells"] is None
    assert data["recomputed"] is None


@pytest.mark.parametrize("content", [None, b"", b"not a model, but long enough to have a header length"])
def test_what_is_no_model_is_code_5(run, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "net").write_bytes(content)
    result = run("certify", tmp_path / "net", "--check", "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout)["error"]["kind"] == "FileFormatError"
    assert result.stderr.startswith("error: ")


def test_a_folder_is_code_5(run, tmp_path: Path) -> None:
    assert run("certify", tmp_path, "--check").exit_code == 5


def test_a_callable_is_code_6(run, callable_model: Path) -> None:
    result = run("certify", callable_model, "--check")
    assert result.exit_code == 6
    assert "unprovable" in result.stdout
    assert "intact, not re-provable: the file does not hold the target" in result.stdout
    data = json.loads(run("certify", callable_model, "--check", "--json").stdout)
    assert set(data) == FIELDS
    assert (data["verdict"], data["what"], data["cells"], data["at"]) == ("unprovable", None, None, None)


def test_a_file_without_a_bound_is_code_6(run, model: Path, tmp_path: Path) -> None:
    metadata, arrays = split(model)
    none = with_certificate(metadata, status="sampled", bound=None, parts={})
    path = join(tmp_path / "net", none, arrays, honest=True)
    result = run("certify", path, "--check")
    assert (result.exit_code, "states no bound" in result.stdout) == (6, True)


def test_too_few_cells_are_code_7(run, model: Path) -> None:
    result = run("certify", model, "--check", "--cells", "1")
    assert result.exit_code == 7
    assert "undecided" in result.stdout
    assert "raise the limit" in result.stdout
    data = json.loads(run("certify", model, "--check", "--cells", "1", "--json").stdout)
    assert (data["verdict"], data["cells"]) == ("undecided", 1)


def test_cells_without_a_check_are_refused(run, model: Path) -> None:
    result = run("certify", model, "--cells", "5")
    assert result.exit_code == 2
    assert "add --check" in result.stderr


@pytest.mark.parametrize("cells", ["0", "-1", "many", "1e3"])
def test_absurd_limits_are_refused(run, model: Path, cells: str) -> None:
    result = run("certify", model, "--check", "--cells", cells)
    assert result.exit_code == 2
    assert "Invalid value for '--cells'" in result.stderr


def test_the_help_says_what_the_codes_mean(run) -> None:
    text = " ".join(run("certify", "--help").stdout.split())
    assert "--check" in text
    assert f"({NORMAL.cells})" in text
    assert NORMAL.cells == certify.CELLS
    for words in ("Exit code 4", "6: intact, not re-", "7: not settled"):
        assert words in text
    assert "6 checked: intact" in " ".join(run("--help").stdout.split())


def test_a_model_on_tokens_and_a_plane(run, tokens: Path, plane: Path) -> None:
    for path in (tokens, plane):
        data = json.loads(run("certify", path, "--check", "--json").stdout)
        assert data["verdict"] == "confirmed", data["reason"]


MARKUP = (
    "[red]a[/red] [link=http://x]b[/link] <script>alert(1)</script> "
    "\x1b[31mc\x1b[0m\u202e \x9b2J\r\ndigest  $\\alpha$ :smile:"
)
HARMLESS = r"\x1b[31mc\x1b[0m\u202e \x9b2J\r\ndigest  $\alpha$ :smile:"


@pytest.fixture
def marked(model: Path, tmp_path: Path) -> Path:
    """A consistent file whose words are markup, wherever a file has words of its own."""
    metadata, arrays = split(model)
    metadata = metadata | {"construction": MARKUP, "reason": MARKUP}
    metadata["network"]["construction"] = MARKUP
    bound = {"bound": (0.1).hex(), "parts": {MARKUP: (0.05).hex()}}
    assuming = json.loads(metadata["certificate"])["assumptions"]
    metadata = with_certificate(agreeing(metadata, arrays), assumptions=[*assuming, MARKUP], **bound)
    return join(tmp_path / "[red]marked[bold].safetensors", metadata, arrays, honest=True)


VERBS = {
    "inspect": [],
    "certify": [],
    "certify --check": ["--check"],
    "measure": ["--points", "10"],
    "measure --attack": ["--attack", "--seconds", "0.1"],
}


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_markup_in_a_file_is_shown_as_it_is(run, marked: Path, verb: str, terminal: bool) -> None:
    settings = {"env": {"FORCE_COLOR": "1", "NO_COLOR": None, "COLUMNS": "2000"}} if terminal else {}
    result = run(verb.split()[0], marked, *VERBS[verb], **settings)
    assert result.exit_code in (0, 4), result.output
    output = result.stdout + result.stderr
    for control in ("\x1b[31mc", "\x1b]8", "\u202e", "\x9b"):
        assert control not in output
    assert "\r" not in result.stdout  # a bar on stderr returns to its start
    assert not any(line.startswith("digest  $") for line in output.splitlines())  # no file adds lines to a report
    if verb == "inspect":
        assert HARMLESS in output
        assert "[red]a[/red] [link=http://x]b[/link] <script>alert(1)</script>" in output


@pytest.mark.parametrize("verb", VERBS)
def test_markup_in_a_file_is_data_in_json(run, marked: Path, verb: str) -> None:
    result = run(verb.split()[0], marked, *VERBS[verb], "--json")
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    data = json.loads(result.stdout)
    assert data["file"] == str(marked)
    if verb == "inspect":
        assert data["construction"] == MARKUP


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_name_is_no_markup(run, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "[red]\x1b[31m\u202e[link=x].safetensors"
    for content in (None, b"\0" * 100):
        if content is not None:
            path.write_bytes(content)
        result = run(verb.split()[0], path, *VERBS[verb], "--json")
        assert result.exit_code == 5
        assert "\x1b" not in result.output
        assert "\u202e" not in result.output
        assert result.stdout.isascii()
        assert json.loads(result.stdout)["error"]["kind"] == "FileFormatError"


def test_the_names_of_a_callables_inputs_are_no_markup(run, callable_model: Path, tmp_path: Path) -> None:
    metadata, arrays = split(callable_model)
    metadata = agreeing(metadata | {"target": metadata["target"] | {"names": [MARKUP]}}, arrays)
    path = join(tmp_path / "net", metadata, arrays, honest=True)
    for words in (["inspect"], ["certify"], ["certify", "--check"], ["measure"]):
        result = run(words[0], path, *words[1:])
        assert result.exit_code != 1
        assert not {"\x1b", "\u202e", "\r", "\x9b"} & set(result.stdout + result.stderr)
        assert not any(line.startswith("digest  $") for line in result.output.splitlines())
