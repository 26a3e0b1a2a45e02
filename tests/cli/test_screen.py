from pathlib import Path

import pytest

from attnforge.cli.screen import clean

BOX = "─━│╭╮╰╯═║┃"


def test_clean_keeps_what_prints() -> None:
    assert clean("é ∑ x\n") == "é ∑ x\n"
    assert clean("a\x00\x1b\x9b\u202e\u200b\ud800\r\tb") == r"a\x00\x1b\x9b\u202e\u200b\ud800\r\tb"


@pytest.mark.parametrize("words", [["constructions"], ["inspect"], ["--help"], ["compile", "--help"], ["nothing"]])
def test_pipes_get_plain_lines(run, model: Path, words: list[str]) -> None:
    output = run(*words, *([model] if words == ["inspect"] else [])).output
    assert len(output) > 100
    assert not set(output) & {*BOX, "\x1b"}
    assert all(line == line.rstrip() for line in output.splitlines())


def test_terminals_get_colour_unless_they_say_no(run, model: Path) -> None:
    colour = {"FORCE_COLOR": "1", "NO_COLOR": None, "TERM": "xterm-256color", "COLUMNS": "80"}
    styled = run("inspect", model, env=colour).stdout
    assert "\x1b[36mtarget" in styled
    assert "\x1b[36m" not in run("inspect", model, env=colour | {"NO_COLOR": "1"}).stdout


def test_a_narrow_terminal_keeps_names_whole(run) -> None:
    narrow = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
    assert "multihead_truncated_linear" in run("constructions", env=narrow).stdout
