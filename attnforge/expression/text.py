"""Trees as text that parses back to the same tree (of inputs named as functions are, if their names are given)."""

from __future__ import annotations

from collections.abc import Sequence

from attnforge.expression.tree import Apply, Constant, Node, Variable, fold

SUM, PRODUCT, NEGATIVE, POWER, ATOM = range(1, 6)  # how tightly the outermost operator of a text binds
BINDING = {"+": SUM, "*": PRODUCT, "/": PRODUCT, "-": NEGATIVE, "^": POWER}
LONG_TAIL = 6  # that many zeros are easier to read as an exponent, and a hostile 1e15 does not grow when written


def to_text(node: Node) -> str:
    """The canonical text of a tree: ``parse(to_text(node)) == node``, floats included.

    >>> from attnforge.expression.parse import parse
    >>> to_text(parse("-x**2+(3.0)*abs( x )-1"))
    '-x^2 + 3*abs(x) - 1'
    """
    return fold(node, _write)


def number_text(value: float) -> str:
    """A short decimal text that reads back as the same float.

    >>> number_text(1.0), number_text(0.1), number_text(2e9), number_text(-2.5e-7)
    ('1', '0.1', '2e9', '-2.5e-7')
    """
    plain = repr(value).removesuffix(".0")
    if "e" in plain:
        mantissa, exponent = plain.split("e")
        return f"{mantissa}e{int(exponent)}"
    zeros = len(plain) - len(plain.rstrip("0")) if "." not in plain else 0
    return f"{plain[:-zeros]}e{zeros}" if zeros >= LONG_TAIL else plain


def _write(node: Node, texts: Sequence[str]) -> str:
    if isinstance(node, Constant):
        return number_text(node.value)
    if isinstance(node, Variable):
        return node.name
    writer = {"+": _write_sum, "*": _write_product, "/": _write_quotient, "^": _write_power, "-": _write_negative}
    if node.function in writer:
        return writer[node.function](node, texts)
    if node.function == "where":
        u, v, a, b = texts
        return f"where({u} < {v}, {a}, {b})"
    return f"{node.function}({', '.join(texts)})" if texts else node.function


def _write_sum(node: Apply, texts: Sequence[str]) -> str:
    parts = [_wrap(node.arguments[0], texts[0], PRODUCT)]
    for child, text in zip(node.arguments[1:], texts[1:], strict=True):
        if isinstance(child, Constant) and text.startswith("-"):
            parts.append(f" - {text[1:]}")
        elif isinstance(child, Apply) and child.function == "-":
            parts.append(f" - {_subtracted(child, text)}")
        else:
            parts.append(f" + {_wrap(child, text, PRODUCT)}")
    return "".join(parts)


def _subtracted(child: Apply, text: str) -> str:
    """What stands after a binary minus: there, unlike after a unary one, a product needs no parentheses."""
    (inner,) = child.arguments
    product = isinstance(inner, Apply) and inner.function in ("*", "/")
    return text[2:-1] if product else text[1:]


def _write_product(node: Apply, texts: Sequence[str]) -> str:
    first, *others = zip(node.arguments, texts, strict=True)
    nested = isinstance(first[0], Apply) and first[0].function == "*"
    head = _wrap(*first, NEGATIVE if nested else PRODUCT)
    return "*".join([head, *(_wrap(child, text, NEGATIVE) for child, text in others)])


def _write_quotient(node: Apply, texts: Sequence[str]) -> str:
    above, below = node.arguments
    return f"{_wrap(above, texts[0], PRODUCT)}/{_wrap(below, texts[1], NEGATIVE)}"


def _write_power(node: Apply, texts: Sequence[str]) -> str:
    base, exponent = node.arguments
    return f"{_wrap(base, texts[0], ATOM)}^{_wrap(exponent, texts[1], NEGATIVE)}"


def _write_negative(node: Apply, texts: Sequence[str]) -> str:
    (child,) = node.arguments
    bare = isinstance(child, Constant) and not texts[0].startswith("-")
    return f"-({texts[0]})" if bare else f"-{_wrap(child, texts[0], NEGATIVE)}"  # -1 without parentheses is a constant


def _wrap(node: Node, text: str, binding: int) -> str:
    return text if _binding(node, text) >= binding else f"({text})"


def _binding(node: Node, text: str) -> int:
    if isinstance(node, Apply):
        return BINDING.get(node.function, ATOM)
    return NEGATIVE if text.startswith("-") else ATOM
