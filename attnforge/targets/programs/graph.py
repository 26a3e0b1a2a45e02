"""A program as a graph: its nodes in the order in which they can be computed, and what must hold of any program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnforge.errors import TargetError
from attnforge.targets.programs.alphabet import Alphabet
from attnforge.targets.programs.language import LabelTable, NumberTable, Selector, Values

MOST_NODES = 10_000


def in_order(program: Any) -> list[Values]:
    """All nodes, operands first; a program that computes a value from itself is refused, naming the operation."""
    if not isinstance(program, Values):
        got = f"{type(program).__name__}"
        raise TargetError("A program is the value over the sequence that it computes", got, "Pass labels or numbers")
    done: dict[int, Values] = {}
    open_nodes: dict[int, Values] = {id(program): program}
    stack: list[tuple[Values, Iterator[Values]]] = [(program, iter(program.operands))]
    while stack:
        node, rest = stack[-1]
        child = next(rest, None)
        if child is None:
            stack.pop()
            del open_nodes[id(node)]
            done[id(node)] = node
        elif id(child) in open_nodes:
            raise TargetError("A program computes no value from itself", f"a cycle through {child.operation}")
        elif id(child) not in done:
            open_nodes[id(child)] = child
            stack.append((child, iter(child.operands)))
        if len(done) + len(stack) > MOST_NODES:
            raise TargetError(f"A program has at most {MOST_NODES:,} operations", "more", "Split it")
    return list(done.values())


def rebuilt(node: Values, made: Mapping[Values, Any], selection: Callable[[Selector], Selector]) -> Values:
    """The same operation on what was ``made`` of its operands, by another ``selection``."""
    if isinstance(node, LabelTable | NumberTable):
        return replace(node, arguments=tuple(made[each] for each in node.arguments))
    changed: dict[str, Any] = {name: made[getattr(node, name)] for name in ("number", "values") if hasattr(node, name)}
    if hasattr(node, "terms"):
        changed["terms"] = tuple((factor, made[number]) for factor, number in node.terms)
    if hasattr(node, "selector"):
        changed["selector"] = selection(node.selector)
    return replace(node, **changed) if changed else node


def check_vocabulary(vocabulary: Any) -> Alphabet:
    """Distinct labels, at least one; not even equal ones, so that a sequence is read in one way."""
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Sequence) or not len(vocabulary):
        raise TargetError("A vocabulary is a list of at least one token", f"{vocabulary!r:.60}", "Pass a list")
    found = Alphabet(vocabulary)
    if len(set(found)) < len(vocabulary):
        raise TargetError("The tokens of a vocabulary are distinct", f"{list(vocabulary)!r:.80}", "Drop the doubles")
    return found
