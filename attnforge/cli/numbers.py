"""Numbers as people write them in files and options."""

from __future__ import annotations


def number(text: str) -> float:
    """A float, by stricter rules than Python's: ``1_000`` and digits of other scripts are refused, not guessed at.

    >>> number(" -1e-3 ")
    -0.001
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: {text!r}")
    return float(text)


def number_or_constant(text: str) -> float:
    """A float, or the one nearest to a constant expression such as ``2*pi`` or ``sqrt(2)``; TargetError if neither.

    >>> number_or_constant("-pi")
    -3.141592653589793
    """
    try:
        return number(text)
    except ValueError:
        from attnforge.expression.constant import constant  # slow to import, and plain numbers do without

        return constant(text)
