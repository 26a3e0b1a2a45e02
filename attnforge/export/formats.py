"""What is known of a format: how it is written, under which names it is asked for, what it needs and refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from attnforge.errors import RefusalError

if TYPE_CHECKING:
    from attnforge.outward import DType


DTYPES = ("float64", "float32")


class Writer(Protocol):
    """What writes a model: a compiled target, or a bare Network, in its own dtype or another."""

    def __call__(self, model: Any, path: str | os.PathLike[str], dtype: DType | None = None, **options: Any) -> Any:
        """Write it, in whole or not at all."""
        ...


@dataclass(frozen=True)
class Format:
    """What people and doors know of a format before its libraries are imported.

    Attributes:
        name: of the function, and, with hyphens, of ``attnforge export --to``.
        load: gives the function that writes; its libraries are imported no sooner.
        suffix: by which a file's name asks for it; None where a folder is written.
        extra: the extra that installs what writing needs, if that is not installed with attnforge.
        packages: those, by the names they are imported under.
        writes, takes, runs_with, refuses: for the table of ``docs/export.md``.
    """

    name: str
    load: Callable[[], Writer]
    writes: str
    takes: str
    runs_with: str
    refuses: str
    suffix: str | None = None
    extra: str | None = None
    packages: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """As the shell writes its name."""
        return self.name.replace("_", "-")

    @property
    def writer(self) -> Writer:
        """The function, which refuses where what it needs is not installed."""
        write = self.load()

        @wraps(write)
        def checked(*given: Any, **options: Any) -> Any:
            self.require()
            return write(*given, **options)

        return checked

    def require(self) -> None:
        """Refuse, with the line that installs it, where a package is missing that writing needs."""
        missing = [package for package in self.packages if find_spec(package) is None]
        if missing:
            wanted, remedy = f"Writing {self.option} needs the extra `{self.extra}`", "pip install 'attnforge[{}]'"
            raise RefusalError(wanted, f"no package {missing[0]}", remedy.format(self.extra))


def check_dtype(name: str) -> None:
    """Refuse what not every runtime computes alike."""
    if name not in DTYPES:
        remedy = "Pass dtype='float32': half types round otherwise in every runtime"
        raise RefusalError("Models are exported in float64 or float32", name, remedy)
