"""The expression tree: frozen, hashable, and walked without recursion.

A node is a constant, a variable, or a function applied to nodes. Operators are functions too: ``+`` and ``*`` take two
or more arguments, so a long sum is wide and not deep; ``-`` is the negation of one argument (``a - b`` is the sum of
``a`` and ``-b``, which is the same real number and the same float); ``/`` and ``^`` take two.

Subtrees may be shared (derivatives share a lot, networks more), so every walk visits each *object* once. Several trees
are walked together as the arguments of one root, :func:`joined`.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from attnforge.errors import TargetError

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*_?", re.ASCII)  # no leading and no double underscore
INDEX = re.compile(r"\[(?:0|[1-9][0-9]*)\]", re.ASCII)
JOINED = "[]"  # the root of several trees: no function, it has no value
MAX_SHOWN = 10_000  # nodes in a repr: a tree of shared subtrees may have more than there is memory for


@dataclass(frozen=True)
class Constant:
    """A finite float64 number, meant exactly.

    >>> Constant(2)
    Constant(2.0)
    """

    value: float

    def __post_init__(self) -> None:
        try:
            value = float(self.value)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            raise TargetError("A constant must be a finite float64", repr(self.value)[:80], "Use a finite number")
        object.__setattr__(self, "value", value)

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


@dataclass(frozen=True)
class Variable:
    """A real variable, named ``x`` or, as an entry of a vector, ``x[3]``."""

    name: str

    def __post_init__(self) -> None:
        if problem := name_problem(self.name):
            raise TargetError(f"A variable needs a plain name: {problem}", repr(self.name)[:80], "Rename the variable")

    def __repr__(self) -> str:
        return f"Variable({self.name!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Apply:
    """A function, by its name in the table of functions, applied to nodes.

    ``size`` counts nodes and ``depth`` levels, as if nothing were shared; ``varies`` is whether there is a variable in
    it. The hash is computed from the children's, and equality compares with a stack of its own, so that neither can
    exhaust Python's.
    """

    function: str
    arguments: tuple[Node, ...]
    size: int = field(init=False)
    depth: int = field(init=False)
    varies: bool = field(init=False)
    _hash: int = field(init=False)
    _steps: tuple[Step, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)
        object.__setattr__(self, "size", 1 + sum(size(child) for child in self.arguments))
        object.__setattr__(self, "depth", 1 + max((depth(child) for child in self.arguments), default=0))
        object.__setattr__(self, "varies", any(varies(child) for child in self.arguments))
        object.__setattr__(self, "_hash", hash((self.function, self.arguments)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Apply) and _equal(self, other)

    def __repr__(self) -> str:
        return fold(self, _show) if self.size <= MAX_SHOWN else f"<{self.function} of {self.size:,} nodes>"

    def __reduce__(self) -> tuple[type[Apply], tuple[str, tuple[Node, ...]]]:
        return Apply, (self.function, self.arguments)  # string hashes differ between processes: compute them anew


Node = Constant | Variable | Apply


def children(node: Node) -> tuple[Node, ...]:
    """The arguments of an application; nothing for a leaf."""
    return node.arguments if isinstance(node, Apply) else ()


def size(node: Node) -> int:
    """The number of nodes."""
    return node.size if isinstance(node, Apply) else 1


def depth(node: Node) -> int:
    """The number of levels; a leaf has one."""
    return node.depth if isinstance(node, Apply) else 1


def varies(node: Node) -> bool:
    """Whether there is a variable in it."""
    return node.varies if isinstance(node, Apply) else isinstance(node, Variable)


def variables(node: Node) -> tuple[str, ...]:
    """The names of the variables, in order of first appearance.

    >>> variables(Apply("+", (Variable("y"), Variable("x"), Variable("y"))))
    ('y', 'x')
    """
    return tuple(dict.fromkeys(each.name for each in bottom_up(node) if isinstance(each, Variable)))


def bottom_up(root: Node) -> list[Node]:
    """Each distinct object once, arguments before the node that uses them, left before right."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children(node)))
    return order


class Step(NamedTuple):
    """One step of a walk: the node, the places of its arguments' results, and those of them not needed again."""

    node: Node
    arguments: tuple[int, ...]
    finished: tuple[int, ...]


def fold(root: Node, visit: Callable[[Node, Sequence[T]], T]) -> T:
    """Compute bottom up: ``visit(node, results of its arguments)``, once per object.

    A result is dropped after its last use, so that an evaluation on large arrays holds few of them.
    """
    results: dict[int, T] = {}
    for place, (node, arguments, finished) in enumerate(_steps(root)):
        results[place] = visit(node, [results[argument] for argument in arguments])
        for argument in finished:
            del results[argument]
    return results.popitem()[1]  # the root's, the last one left


def joined(trees: Iterable[Node]) -> Apply:
    """One root for several trees, so that one walk serves them all (:func:`fold_joined`, :func:`bottom_up`)."""
    return Apply(JOINED, tuple(trees))


def fold_joined(root: Apply, visit: Callable[[Node, Sequence[T]], T]) -> list[T]:
    """The results of all the trees that a root joins, every object visited once."""
    results: dict[int, T] = {}
    *steps, last = _steps(root)
    for place, (node, arguments, finished) in enumerate(steps):
        results[place] = visit(node, [results[argument] for argument in arguments])
        for argument in finished:
            del results[argument]
    return [results[argument] for argument in last.arguments]


def unified(trees: Iterable[Node]) -> tuple[Node, ...]:
    """The same trees with equal subtrees, in one or in several of them, as one object.

    >>> a, b = unified([Apply("sin", (Variable("x"),)), Apply("sin", (Variable("x"),))])
    >>> a is b
    True
    """
    distinct: dict[tuple[object, ...], Node] = {}

    def visit(node: Node, arguments: Sequence[Node]) -> Node:
        if isinstance(node, Apply):
            same = all(old is new for old, new in zip(node.arguments, arguments, strict=True))
            key: tuple[object, ...] = (node.function, *map(id, arguments))  # kept alive by the nodes that hold them
            return distinct.setdefault(key, node if same else Apply(node.function, tuple(arguments)))
        return distinct.setdefault((repr(node),), node)

    return tuple(fold_joined(joined(trees), visit))


def _steps(root: Node) -> tuple[Step, ...]:
    """The walk of a tree, kept in its root: an enclosure is computed on many thousand boxes."""
    if not isinstance(root, Apply):
        return (Step(root, (), ()),)
    if not root._steps:
        object.__setattr__(root, "_steps", _plan(bottom_up(root)))
    return root._steps


def _plan(order: list[Node]) -> tuple[Step, ...]:
    places = {id(node): place for place, node in enumerate(order)}
    arguments = [tuple(places[id(child)] for child in children(node)) for node in order]
    last_use = {argument: place for place, each in enumerate(arguments) for argument in each}
    finished: list[list[int]] = [[] for _ in order]
    for argument, place in last_use.items():
        finished[place].append(argument)
    return tuple(Step(*each) for each in zip(order, arguments, map(tuple, finished), strict=True))


def name_problem(name: object) -> str:
    """Why ``name`` cannot name a variable; empty if it can.

    >>> name_problem("x[3]"), name_problem("lambda")
    ('', '`lambda` is a word of Python')
    """
    if not isinstance(name, str):
        return "a name is a string"
    match = NAME.match(name)
    if match is None or not (match.end() == len(name) or INDEX.fullmatch(name, match.end())):
        return "letters, digits and single underscores, starting with a letter, then perhaps an index such as [3]"
    return f"`{match[0]}` is a word of Python" if keyword.iskeyword(match[0]) else ""


def _check_arguments(arguments: object) -> None:
    if not (isinstance(arguments, tuple) and all(isinstance(child, Node) for child in arguments)):
        got = type(arguments).__name__
        raise TargetError("The arguments of a node must be a tuple of nodes", got, "Wrap numbers in Constant")


def _equal(left: Apply, right: Apply) -> bool:
    stack: list[tuple[Node, Node]] = [(left, right)]
    seen: set[tuple[int, int]] = set()
    while stack:
        a, b = stack.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        if not (isinstance(a, Apply) and isinstance(b, Apply)):
            if a != b:
                return False
            continue
        if (a._hash, a.function, len(a.arguments)) != (b._hash, b.function, len(b.arguments)):
            return False
        seen.add((id(a), id(b)))
        stack.extend(zip(a.arguments, b.arguments, strict=True))
    return True


def _show(node: Node, arguments: Sequence[str]) -> str:
    if isinstance(node, Apply):
        comma = "," if len(arguments) == 1 else ""
        return f"Apply({node.function!r}, ({', '.join(arguments)}{comma}))"
    return repr(node)
