import re

import pytest

import attnforge as af

VERBS = (
    "compile", "inspect", "certify", "measure", "diagnose", "report", "apply", "export", "constructions", "explore",
    "bench", "experiment", "zoo",
)  # fmt: skip


def test_version(run) -> None:
    assert run("--version").stdout == f"attnforge {af.__version__}\n"


def test_the_main_help_names_every_verb_and_every_exit_code(run) -> None:
    text = run("--help").stdout
    listed = re.findall(r"^  (\w+)  +\S", text.partition("Commands:")[2].partition("Example:")[0], re.MULTILINE)
    assert tuple(listed) == VERBS
    assert [int(code) for code in re.findall(r"^ +(\d)  \w", text, re.MULTILINE)] == list(range(9))
    assert "..." not in text.partition("Commands:")[2]  # no summary is cut short


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_teaches_by_example(run, verb: str) -> None:
    text = run(verb, "--help").stdout
    example = text.partition("Example:")[2]
    assert re.search(rf"^    attnforge {verb}\b", example, re.MULTILINE)
    assert "--json" in text
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


def test_a_misspelt_verb_gets_a_suggestion(run) -> None:
    result = run("comple")
    assert result.exit_code == 2
    assert "Did you mean 'compile'" in result.stderr
