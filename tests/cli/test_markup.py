"""Words of users and of files are never markup, in no verb, on no terminal, in no JSON."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.network import digest

MARKUP = (
    "[red]a[/red] [link=http://x]b[/link] <script>alert(1)</script> "
    "\x1b[31mc\x1b[0m\u202e \x9b2J\r\ndigest  $\\alpha$ :smile:"
)
HARMLESS = r"\x1b[31mc\x1b[0m\u202e \x9b2J\r\ndigest  $\alpha$ :smile:"
CONTROLS = ("\x1b[31mc", "\x1b]8", "\u202e", "\x9b")
TERMINAL = {"env": {"FORCE_COLOR": "1", "NO_COLOR": None, "COLUMNS": "2000"}}
VERBS = {
    "inspect": [],
    "certify": [],
    "certify --check": ["--check"],
    "measure": ["--points", "10"],
    "measure --attack": ["--attack", "--seconds", "0.1"],
}


@pytest.fixture(autouse=True)
def _looks_are_milliseconds(clock):
    clock.tick = 1e-3


@pytest.fixture(scope="session")
def marked(net: af.Compiled, saved) -> Path:
    """A consistent file whose words are markup, wherever a file has words of its own."""
    network = replace(net.network, construction=MARKUP)
    words = {"assumptions": (*net.certificate.assumptions, MARKUP), "parts": {MARKUP: 0.05}, "bound": 0.1}
    certificate = replace(net.certificate, digest=digest(network), **words)
    return saved("[red]marked[bold]", replace(net, network=network, certificate=certificate, construction=MARKUP))


@pytest.fixture(scope="session")
def misnamed(saved) -> Path:
    """A network of a callable whose input has markup for a name."""
    return saved("misnamed", af.compile(lambda x: np.sin(3 * x), {MARKUP: (-1, 1)}, 0.1, lipschitz=3))


@pytest.mark.parametrize("settings", [{}, TERMINAL], ids=["pipe", "terminal"])
@pytest.mark.parametrize("file", ["marked", "misnamed"])
@pytest.mark.parametrize("verb", VERBS)
def test_markup_in_a_file_is_shown_as_it_is(run, verb: str, file: str, settings, request) -> None:
    result = run(verb.split()[0], request.getfixturevalue(file), *VERBS[verb], **settings)
    assert result.exit_code != 1, result.output
    assert not any(control in result.stdout + result.stderr for control in CONTROLS)
    assert "\r" not in result.stdout  # a bar on stderr returns to its start
    assert not any(line.startswith("digest  $") for line in result.output.splitlines())  # no file adds lines
    if verb == "inspect":
        assert HARMLESS in result.stdout
        assert "[red]a[/red] [link=http://x]b[/link] <script>alert(1)</script>" in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_markup_in_a_file_is_data_in_json(run, data, marked: Path, verb: str) -> None:
    result = run(verb.split()[0], marked, *VERBS[verb], "--json")
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    told = data(verb.split()[0], marked, *VERBS[verb], code=result.exit_code)
    assert told["file"] == str(marked)
    assert told.get("construction", MARKUP) == MARKUP


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_name_is_no_markup(run, data, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "[red]\x1b[31m\u202e[link=x].safetensors"
    for content in (None, b"\0" * 100):
        if content is not None:
            path.write_bytes(content)
        result = run(verb.split()[0], path, *VERBS[verb], "--json")
        assert result.exit_code == 5
        assert not {"\x1b", "\u202e"} & set(result.output)
        assert result.stdout.isascii()


@pytest.mark.parametrize("settings", [{}, TERMINAL], ids=["pipe", "terminal"])
@pytest.mark.parametrize("text", ["[red]x", "x[/red]", "x \x1b[31m", "x \u202e y", ":smile:"])
def test_hostile_expressions_are_shown_as_they_are(run, text: str, settings) -> None:
    result = run("compile", text, "--domain", "x=-1:1", **settings)
    assert result.exit_code == 2
    assert "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) in result.stderr
    assert "\u202e" not in result.stderr
    assert "\x1b[31mx" not in result.stderr
    assert ("\x1b" in result.stderr) is bool(settings)
