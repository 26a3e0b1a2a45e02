"""Several trees with shared subtrees as a straight-line program, and back: ``t1 = tanh(x); [t1, 2*t1]``.

.. code-block:: text

    program  =  { name "=" sum ";" } ( sum | "[" sum { "," sum } "]" )

A network of 64 units a layer is a small program, although the text of one of its trees would fill the world. Every name
is given once, before it is used, and is neither an input nor a function. Each right-hand side is read by :mod:`.parse`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from attnforge.errors import TargetError
from attnforge.targets.expression.functions import NAMES
from attnforge.targets.expression.limits import PROGRAM, Limits
from attnforge.targets.expression.parse import checked_text, parse_part
from attnforge.targets.expression.text import to_text
from attnforge.targets.expression.tokens import error_at, tokenize
from attnforge.targets.expression.tree import (
    Apply,
    Node,
    Variable,
    bottom_up,
    children,
    depth,
    joined,
    name_problem,
    variables,
)

DEEP = 20  # levels of a right-hand side: deeper ones are cut, so that no nesting is too deep to be read again


def program_text(trees: Sequence[Node], names: Collection[str] = (), *, scalar: bool = False) -> str:
    """The trees as a program whose temporaries are named unlike the inputs; ``scalar``: one tree, without brackets.

    Subtrees that are used twice, as one object, have names; with :func:`.tree.unified` trees, also equal ones.

    >>> x = Variable("x")
    >>> t = Apply("sin", (x,))
    >>> program_text([Apply("+", (t, x)), Apply("*", (t, t))])
    't1 = sin(x); [t1 + x, t1*t1]'
    """
    root = joined(trees)
    uses = Counter(id(child) for node in bottom_up(root) for child in children(node))
    stem = _stem({*names, *variables(root)})
    shown: dict[int, Node] = {}
    statements: list[str] = []
    for node in bottom_up(root)[:-1]:
        written = node
        if children(node) and isinstance(node, Apply):
            written = Apply(node.function, tuple(shown[id(child)] for child in node.arguments))
            if uses[id(node)] > 1 or depth(written) >= DEEP:
                name = f"{stem}{len(statements) + 1}"
                statements.append(f"{name} = {to_text(written)}")
                written = Variable(name)
        shown[id(node)] = written
    results = ", ".join(to_text(shown[id(tree)]) for tree in trees)
    return "; ".join([*statements, results if scalar else f"[{results}]"])


def is_program(text: str) -> bool:
    """Whether a text must be read as a program: it has statements, or is a list.

    >>> is_program("t = sin(x); t + t^2"), is_program("[x, y]"), is_program("x[0] + x[1]")
    (True, True, False)
    """
    return ";" in text or is_list(text)


def is_list(text: str) -> bool:
    """Whether the program ends in a list of expressions, and not in one."""
    return text.rpartition(";")[2].lstrip().startswith("[")


def parse_program(text: str, names: Collection[str] | None = None) -> tuple[Node, ...]:
    """The trees of a program of the given inputs (None: of any), or a `TargetError` that shows what is wrong.

    >>> a, b = parse_program("t = sin(x); [t + x, t^2]", ("x",))
    >>> a.arguments[0] is b.arguments[0]
    True
    """
    text = checked_text(text)
    if len(text) > PROGRAM.characters:
        requirement = f"A program may have at most {PROGRAM.characters} characters"
        raise TargetError(requirement, str(len(text)), "Shorten it, or give a callable")
    reader = _Reader(names)
    *statements, results = text.split(";")
    for statement in statements:
        reader.define(statement)
    trees = tuple(reader.read(part) for part in (_entries(results) if is_list(results) else [results]))
    return reader.checked(trees)


class _Reader:
    """What has been defined so far, and how many nodes that took."""

    def __init__(self, names: Collection[str] | None) -> None:
        self.names = names
        self.stems = {name.partition("[")[0] for name in names or ()}
        self.known: dict[str, Node] = {}
        self.nodes = 0

    def define(self, statement: str) -> None:
        """Read ``name = expression``."""
        name, equals, expression = (part.strip() for part in statement.partition("="))
        if not equals:
            got = f"`{statement.strip()[:80]}`"
            raise TargetError("Before the last `;` every part is `name = expression`", got, "Write t = sin(x); t + t^2")
        if problem := self._problem(name):
            raise TargetError(f"A part of a program needs a name of its own: {problem}", f"{name[:80]!r}", "Rename it")
        self.known[name] = self.read(expression)

    def read(self, expression: str) -> Node:
        """The tree of an expression, with all that has been defined in it."""
        limits = Limits(PROGRAM.characters, PROGRAM.nodes - self.nodes, PROGRAM.depth)
        node, made = parse_part(expression, self.known, limits)
        self.nodes += made
        return node

    def checked(self, trees: tuple[Node, ...]) -> tuple[Node, ...]:
        """The trees, after checking that their variables are inputs and that no part was named like one."""
        found = variables(joined([*trees, *self.known.values()]))
        taken = [name for name in found if name.partition("[")[0] in self.known]
        if taken:
            requirement = "A part of a program is named before it is used, and unlike the inputs"
            raise TargetError(requirement, f"`{taken[0]}`", "Define it first, or rename it")
        missing = [] if self.names is None else [name for name in found if name not in self.names]
        if missing:
            got = f"{', '.join(missing[:5])}, where the inputs are {', '.join(list(self.names or ())[:5])}"
            raise TargetError("Every name of a program is an input or defined before it is used", got, "Define it")
        return trees

    def _problem(self, name: str) -> str:
        if problem := name_problem(name):
            return problem
        if "[" in name:
            return "it has no index"
        if name in NAMES:
            return "this one is a function or a number"
        if name in self.known:
            return "this one is defined twice"
        return "this one is an input" if name in self.stems else ""


def _entries(text: str) -> list[str]:
    """The expressions between the brackets, apart at commas outside parentheses."""
    tokens = tokenize(text, PROGRAM.characters)
    last, level, cuts = tokens[-2], 0, [tokens[0].start]
    if last.text != "]" or len(tokens) < 3:
        raise error_at(text, last.start, "A list of expressions ends with `]`", "Close the bracket")
    for token in tokens[1:-2]:
        level += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == "," and level == 0:
            cuts.append(token.start)
    return [text[start + 1 : end] for start, end in zip(cuts, [*cuts[1:], last.start], strict=True)]


def _stem(taken: Collection[str]) -> str:
    """A letter t, or as many as it takes, that no name made of it and digits is taken."""
    stem = "t"
    while any(name.partition("[")[0].rstrip("0123456789") == stem for name in taken):
        stem += "t"
    return stem
