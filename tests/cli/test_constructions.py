import json

from attnforge.theorems.registry import CONSTRUCTIONS


def test_every_construction_has_a_line(run) -> None:
    header, *lines = run("constructions").stdout.splitlines()
    assert header.split() == ["name", "function", "class", "rate", "reference"]
    for line, entry in zip(lines, CONSTRUCTIONS, strict=True):
        assert line.startswith(entry.name)
        assert entry.rate in line
        assert line.endswith(entry.reference)


def test_json(run) -> None:
    found = json.loads(run("constructions", "--json").stdout)["constructions"]
    assert [(e["name"], e["function_class"]) for e in found] == [(e.name, e.function_class) for e in CONSTRUCTIONS]
