"""Every error attnforge raises on purpose, each a sentence in three parts: requirement, value got, remedy."""

from __future__ import annotations

from numbers import Integral, Real

__all__ = [
    "AttnforgeError",
    "CertificateError",
    "DomainError",
    "FileFormatError",
    "OutOfTimeError",
    "RefusalError",
    "TargetError",
    "ToleranceError",
]


def printable(text: str) -> str:
    r"""The text with every character that does not print shown escaped; blanks and line ends stay.

    Fonts have no picture of control characters, files cannot hold half a surrogate pair, and a terminal obeys.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isprintable():  # at once, however long it is
        return text
    kept = (c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(kept)


class AttnforgeError(Exception):
    """Base of all errors. The message is ``requirement. Got value. Remedy.``

    >>> print(AttnforgeError("`anchors` must be at least 2", "1", "Ask for more anchors"))
    `anchors` must be at least 2. Got 1. Ask for more anchors.
    """

    def __init__(self, requirement: str, got: str | None = None, remedy: str | None = None) -> None:
        self.requirement, self.got, self.remedy = requirement, got, remedy
        parts = [requirement, None if got is None else f"Got {got}", remedy]
        super().__init__(printable(" ".join(_sentence(part) for part in parts if part)))


class TargetError(AttnforgeError, ValueError):
    """The target is not what it must be: malformed text, wrong shape, not finite."""


class DomainError(AttnforgeError, ValueError):
    """A point outside the domain, or a domain that makes no sense."""


class _RequestError(AttnforgeError, ValueError):
    """``smallest_tol`` is the smallest tolerance, of two digits, that was found to be kept; None if none was found."""

    def __init__(
        self, requirement: str, got: str | None = None, remedy: str | None = None, *, smallest_tol: float | None = None
    ) -> None:
        super().__init__(requirement, got, remedy)
        self.smallest_tol = smallest_tol


class RefusalError(_RequestError):
    """No construction takes the request; the reasons are listed before memory is spent.

    ``smallest_tol`` is a tolerance that the same request gets, where one was found.
    """


class OutOfTimeError(RefusalError):
    """The time allowed ended before there was anything to return."""


class ToleranceError(_RequestError):
    """The tolerance asked for cannot be had in this dtype; ``smallest_tol`` can, where it is known."""


class CertificateError(AttnforgeError, ValueError):
    """A network, target or certificate that do not belong together."""


class FileFormatError(AttnforgeError, ValueError):
    """A file that is malformed, truncated, altered or too large to be trusted."""


def is_number(value: object) -> bool:
    """Whether a caller handed in a real number, of Python or NumPy: what else it must be is said where it is used."""
    return isinstance(value, Real)


def is_whole(value: object) -> bool:
    """Whether a caller handed in a whole number, of Python or NumPy."""
    return isinstance(value, Integral)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "\n")) else text + "."
