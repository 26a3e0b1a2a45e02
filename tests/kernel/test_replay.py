"""Derivations as data: replayed they prove the same without search, tampered with they prove nothing that is false.

``ATTNFORGE_EXAMPLES`` is the number of tamperings of each statement.
"""

from __future__ import annotations

import copy
import json
import os
import zlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.errors import CertificateError
from attnforge.kernel import cells
from attnforge.kernel import replay as kernel
from attnforge.kernel.plan import Plan
from attnforge.kernel.replay import from_bytes, replay, to_bytes
from attnforge.kernel.theorem import Run
from attnforge.proving.cells import Search, prove_by_cells
from attnforge.proving.statements import statement_of
from tests.kernel.subjects import NAMES, largest_error, points_of, statement
from tests.readers.mutations import mutations

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "170"))
SAME = 1e-12  # relative: bounds of the same cells, in blocks of other sizes


@cache
def proved(name: str) -> Search:
    return prove_by_cells(statement(name))


@cache
def error(name: str) -> float:
    return largest_error(statement(name))


@pytest.mark.parametrize("name", NAMES)
def test_replay_proves_the_same_without_search(name):
    found = proved(name)
    seen: list[int] = []
    stored = to_bytes(found.theorem.derivation)
    again = replay(statement(name), from_bytes(stored))
    assert again.bound == pytest.approx(found.theorem.bound, rel=SAME)
    assert again.status == found.theorem.status == "proved"
    assert error(name) <= again.bound
    assert to_bytes(again.derivation) == stored
    for data in from_bytes(stored)["covers"]:
        cover = cells.Cover.replayed(statement(name), data, lambda block: seen.append(len(block.lower)))
        assert sum(seen) == len(cover.cells)
        seen.clear()


def test_what_is_said_of_a_cell_does_not_depend_on_those_beside_it():
    """Where keys are left out, too: search and replay look at cells in other company."""
    net = af.constructions.truncated_linear([1.0], 0.0, -1.0, 1.0, anchors=120, domain=af.Box(-2, 2, shape=(1,)))
    stated = statement_of(net.network, "float64", net.target, net.domain)
    theorem = prove_by_cells(stated).theorem
    assert replay(stated, theorem.derivation).bound == pytest.approx(theorem.bound, rel=SAME)


def test_bytes_are_counted_before_they_are_unpacked(monkeypatch):
    stored = to_bytes(proved("fit").theorem.derivation)
    monkeypatch.setattr(kernel, "PACKED", len(stored))
    assert from_bytes(stored)
    monkeypatch.setattr(kernel, "PACKED", len(stored) - 1)
    with pytest.raises(CertificateError):
        from_bytes(stored)


def test_replay_looks_at_the_cells_that_are_left_alone():
    """Cells that were cut on the way are not looked at again."""
    cover = cells.Cover(statement("fit"), Plan((0,), ((),), 6))
    rng, looked_at = np.random.default_rng(0), []
    for _ in range(5):
        cover.cut(rng.choice(cover.cells, 1), np.array([0]), 3)
    again = cells.Cover.replayed(statement("fit"), cover.data(), lambda block: looked_at.append(len(block.lower)))
    assert sum(looked_at) == len(again.cells) == len(cover.cells) == 11
    assert again.bound == pytest.approx(cover.bound, rel=SAME)
    ends = [np.sort(each.between(each.cells)[0], axis=0) for each in (cover, again)]
    assert np.array_equal(*ends)


ODD = (
    None, True, False, -1, 0, 1, 2, 3, 7, 8, 31, 33, 10**6, 10**7, 2**63, 10**400, -(10**30), 0.0, -0.0, 0.5, -1.0,
    1e308, -1e308, 5e-324, float("nan"), float("inf"), "", "cells", "=0x1p0", [], [0], [[]], {}, {"rule": "cells"},
)  # fmt: skip


def places(value, path=()):
    """Every place of nested data but the root."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in entries:
        yield (*path, key)
        yield from places(each, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def tampered(derivation, rng):
    """One change at a place whose depth is drawn first: short fields are changed as often as long ones."""
    data = copy.deepcopy(derivation)
    every = list(places(data))
    name = rng.choice(sorted({str([key for key in path if isinstance(key, str)]) for path in every}))
    some = [path for path in every if str([key for key in path if isinstance(key, str)]) == name]
    path = some[rng.integers(len(some))]
    inside, key, old = at(data, path[:-1]), path[-1], at(data, path)
    match rng.integers(7):
        case 0:
            inside[key] = ODD[rng.integers(len(ODD))]
        case 1:
            del inside[key]
        case 2 if isinstance(old, float):
            inside[key] = float(old * (1 + rng.normal()) + rng.normal() * 10.0 ** rng.integers(-9, 3))
        case 2 | 3 if type(old) is int:
            inside[key] = int(old + rng.integers(-3, 12))
        case 4 if isinstance(old, list) and old:
            rng.shuffle(old)
        case 5 if isinstance(inside, list):
            inside.insert(key, copy.deepcopy(inside[rng.integers(len(inside))]))
        case 6 if isinstance(old, list):
            old[:] = old * int(rng.integers(0, 3))
        case _:
            inside[key] = at(data, every[rng.integers(len(every))])
    return data


@pytest.mark.parametrize("name", NAMES)
def test_no_tampering_proves_less_than_the_error(name):
    derivation, outcomes = json.loads(json.dumps(proved(name).theorem.derivation)), set()
    for seed in range(EXAMPLES):
        data = tampered(derivation, np.random.default_rng([seed, *name.encode()]))
        try:
            bound = replay(statement(name), data).bound
        except CertificateError as refusal:
            outcomes.add("refused" if refusal.got and refusal.remedy else "refused without its parts")
            continue
        assert bound >= error(name), (seed, data)
        outcomes.add("true" if bound <= proved(name).theorem.bound * (1 + SAME) else "larger")
    assert {"refused", "true"} <= outcomes <= {"refused", "larger", "true"}


@pytest.mark.parametrize("seed", range(60))
def test_bytes_that_are_no_derivation_are_refused(seed):
    rng = np.random.default_rng(seed)
    stored = bytearray(to_bytes(proved("fit").theorem.derivation))
    text = bytearray(zlib.decompress(stored))
    what = text if seed % 2 else stored
    for place in rng.integers(0, len(what), size=int(rng.integers(1, 4))):
        what[place] = rng.integers(256)
    try:
        bound = replay(statement("fit"), from_bytes(zlib.compress(bytes(text)) if seed % 2 else bytes(stored))).bound
    except CertificateError:
        return
    assert bound >= error("fit")


def packed(text: str) -> bytes:
    return zlib.compress(text.encode())


@pytest.mark.parametrize(
    "stored",
    [
        b"", b"{}", packed(""), packed("[]"), packed("null"), packed("0.5"), packed('{"rule":0.1}'),
        packed('{"a":NaN}'),
        packed("[" * 10**5), packed('{"a":' * 100 + "1" + "}" * 100), packed("9" * 5000), packed('"\u00e9"'),
        packed('{"a":"=0x1p5000"}'), packed('{"a":"=x"}'), packed("{}") + b"more", packed("{}")[:-1],
        packed("[" + "0," * 2**23 + "0]"), b"0" * (kernel.PACKED + 1),
    ],
    ids=range(18),
)  # fmt: skip
def test_hostile_bytes_are_refused(stored):
    with pytest.raises(CertificateError):
        from_bytes(stored)


@pytest.mark.parametrize("data", [None, [], "cells", {}, {"rule": "lipschitz"}, {"rule": ["cells"]}, {"rule": None}])
def test_only_rules_are_replayed(data):
    with pytest.raises(CertificateError):
        replay(statement("fit"), data)


def test_cells_are_cut_as_deep_as_floats_are_dense(monkeypatch):
    monkeypatch.setattr(cells, "LEVELS", 8)
    plan = Plan((0,), ((),), 1).data()
    deep = {"plan": plan, "cuts": [[1], *[[1, 0]] * (cells.LEVELS - 1)]}
    assert cells.Cover.replayed(statement("fit"), deep).count == 2 * cells.LEVELS + 1
    deep["cuts"].append([1, 0])
    with pytest.raises(CertificateError):
        cells.Cover.replayed(statement("fit"), deep)


def test_nothing_is_lost_in_bytes():
    data = {"b": [0.1, -0.0, 5e-324, 1.7e308, 3, True, None], "a": {"text": ["x", "=0x1p0", "'", "'=", ""]}}
    again = from_bytes(to_bytes(data))
    assert again == data
    assert str(again["b"]) == str(data["b"])
    assert to_bytes(dict(reversed(data.items()))) == to_bytes(data)


@pytest.mark.parametrize("name", ["fit", "row", "gate", "product"])
def test_an_old_derivation_is_true_of_a_changed_network(name):
    """The bound follows the network, or the derivation proves nothing of it."""
    stated, outcomes = statement(name), set()
    rng = np.random.default_rng([5, *name.encode()])
    for mutation in mutations(stated.run.network, rng, 2):
        try:
            changed = replace(stated, run=Run(mutation.make(), stated.run.dtype))
            wanted = largest_error(changed, points_of(stated.domain, 100))
        except (ValueError, IndexError):  # it cannot be made, or does not run
            continue
        try:
            bound = replay(changed, proved(name).theorem.derivation).bound
        except CertificateError:
            outcomes.add("refused")
            continue
        assert not bound < wanted, mutation.what
        outcomes.add("larger" if bound > 2 * proved(name).theorem.bound else "near")
    assert {"larger", "near"} <= outcomes
