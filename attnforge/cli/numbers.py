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
