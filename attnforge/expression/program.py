"""Several trees with shared subtrees as a straight-line program, and back: ``t1 = tanh(x); [t1, 2*t1]``.

.. code-block:: text

    program  =  { name "=" sum ";" } ( sum | "[" sum { "," sum } "]" )

A network of 64 units a layer is a small program, although the text of one of its trees would fill the world. Every name
is given once, before it is used, and is neither an input nor a function. Each right-hand side is read by :mod:`.parse`;
one with the bare name of a vector is a vector, too, for reductions to use: ``d = x - y; norm(d)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from attnforge.errors import TargetError
from attnforge.expression.functions import NAMES
from attnforge.expression.limits import PROGRAM
from attnforge.expression.parse import checked_text, parse_part, vocabulary
from attnforge.expression.reductions import REDUCTIONS
from attnforge.expression.text import to_text
from attnforge.expression.tokens import Token, error_at, tokenize
from attnforge.expression.tree import (
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
    reader = _Reader(text, names)
    start = 0
    while (end := text.find(";", start)) >= 0:
        reader.define(start, end)
        start = end + 1
    return reader.checked(tuple(reader.read(part) for part in _outputs(text, reader.tokens(start))))


class _Reader:
    """What has been defined so far, and how many nodes that took."""

    def __init__(self, text: str, names: Collection[str] | None) -> None:
        self.text, self.names = text, names
        self.known = vocabulary(text, names)
        self.stems = {name.partition("[")[0] for name in names or ()}
        self.nodes = 0

    def define(self, start: int, end: int) -> None:
        """Read ``name = expression``, which stands there in the text."""
        equals = self.text.find("=", start, end)
        if equals < 0:
            got = f"`{self.text[start:end].strip()[:80]}`"
            raise TargetError("Before the last `;` every part is `name = expression`", got, "Write t = sin(x); t + t^2")
        name = self.text[start:equals].strip()
        if problem := self._problem(name):
            raise TargetError(f"A part of a program needs a name of its own: {problem}", f"{name[:80]!r}", "Rename it")
        self.known.parts[name] = self.read(self.tokens(equals + 1, end))

    def tokens(self, start: int, end: int | None = None) -> list[Token]:
        """Of a part of the text."""
        return tokenize(self.text, PROGRAM.characters, start, end)

    def read(self, tokens: Sequence[Token]) -> Node:
        """The tree of an expression, with all that has been defined in it."""
        node, self.nodes = parse_part(self.text, tokens, self.known, PROGRAM, self.nodes)
        return node

    def checked(self, trees: tuple[Node, ...]) -> tuple[Node, ...]:
        """The trees, after checking that their variables are inputs and that no part was named like one."""
        used, parts = variables(joined(trees)), self.known.parts
        found = dict.fromkeys([*used, *variables(joined(parts.values()))])
        taken = [name for name in found if name.partition("[")[0] in parts]
        if taken:
            requirement = "A part of a program is named before it is used, and unlike the inputs"
            raise TargetError(requirement, f"`{taken[0]}`", "Define it first, or rename it")
        inputs = {*(found if self.names is None else self.names)}
        vectors = {name for name in self.known.lengths if name not in used}  # bare, for reductions
        missing = [name for name in found if name not in inputs and name not in vectors]
        if missing:
            got = f"{', '.join(missing[:5])}, where the inputs are {', '.join(list(self.names or ())[:5])}"
            raise TargetError("Every name of a program is an input or defined before it is used", got, "Define it")
        return trees

    def _problem(self, name: str) -> str:
        if problem := name_problem(name):
            return problem
        if "[" in name:
            return "it has no index"
        if name in NAMES or name in REDUCTIONS:
            return "this one is a function or a number"
        if name in self.known.parts:
            return "this one is defined twice"
        return "this one is an input" if name in self.stems else ""


def _outputs(text: str, tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of every output, each with an end of its own: of the list, or of the one expression that there is."""
    if tokens[0].text != "[":
        yield tokens
        return
    first, level = 1, 0
    for place, token in enumerate(tokens[1:-1], start=1):
        level += (token.text in ("(", "[")) - (token.text in (")", "]"))
        closing = level < 0 and token.text == "]"
        if closing or (level == 0 and token.text == ","):
            yield [*tokens[first:place], Token("end", "", token.start)]
            first = place + 1
        if closing and tokens[first].kind != "end":
            raise error_at(text, tokens[first].start, "A list of outputs ends with `]`", "Remove what follows")
    if level >= 0:
        raise error_at(text, tokens[0].start, "A list of outputs ends with `]`", "Close the bracket")


def _stem(taken: Collection[str]) -> str:
    """A letter t, or as many as it takes, that no name made of it and digits is taken."""
    stem = "t"
    while any(name.partition("[")[0].rstrip("0123456789") == stem for name in taken):
        stem += "t"
    return stem
