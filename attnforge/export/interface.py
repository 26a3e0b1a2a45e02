"""What an exported model takes and returns: the shapes of a target, or the tokens of a bare network; and its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnforge.errors import FileFormatError, TargetError
from attnforge.export.formats import check_dtype
from attnforge.files import write_folder_whole, write_whole
from attnforge.network import Network, rounded
from attnforge.outward import dtype_name
from attnforge.targets import JointFunction

if TYPE_CHECKING:
    from attnforge.outward import DType


@dataclass(frozen=True, eq=False)
class Exported:
    """A network in a dtype behind a name for its input, and whether that is one token, and its output one number.

    ``context`` is the name of the second input; ``told_alone`` is of that what ``alone`` is of the first: points (N, d)
    become one token each. ``scalar`` drops the last axis of the output.
    """

    network: Network
    dtype: str
    about: str
    input: str = "tokens"
    context: str | None = None
    alone: bool = False
    told_alone: bool = False
    scalar: bool = False

    @property
    def names(self) -> list[str]:
        """Of the inputs, in their order."""
        return [self.input, *([] if self.context is None else [self.context])]


def exported(model: Any, dtype: DType | None = None) -> Exported:
    """Of a compiled target, with its shapes; or of a bare Network, a program or a function of a prompt: of tokens."""
    network = model if isinstance(model, Network) else getattr(model, "network", None)
    if not isinstance(network, Network):
        wanted, got = "A model to export is a compiled target, a program or a Network", type(model).__name__
        raise TargetError(wanted, got, "Pass what af.compile or af.load returns, or its .network")
    name = dtype_name(getattr(model, "dtype", "float64") if dtype is None else dtype)
    check_dtype(name)
    run, target = rounded(network, name), getattr(model, "target", None)
    if isinstance(target, JointFunction):
        alone, told = (len(box.shape) == 1 for box in (target.query, target.keys))
        return Exported(run, name, _about(model, network), "Y", "X", alone, told, target.outputs is None)
    if target is None or target.layout == "prompt":
        context = None if network.context is None else "context"
        return Exported(run, name, _about(model, network), context=context)
    alone = target.layout == "function"
    return Exported(run, name, _about(model, network), "x", None, alone, False, target.outputs is None)


def one_line(text: str) -> str:
    r"""Text of a model, which may come from a file, as a comment of a script: nothing in it ends the line.

    >>> one_line("x\r+ 1\u2028")
    'x + 1 '
    """
    return "".join(c if c.isprintable() else " " for c in text)


def _about(model: Any, network: Network) -> str:
    """What is written into the file for people."""
    certificate = getattr(model, "certificate", None)
    what = [model.target.describe(), model.construction] if hasattr(model, "target") else [str(network).splitlines()[0]]
    return one_line("; ".join([*what, *([] if certificate is None else [str(certificate)])]))


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in whole, or say why not."""
    with _place(path):
        write_whole(path, data)


def write_folder(path: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Write a folder of files in whole, or say why not."""
    with _place(path):
        write_folder_whole(path, files)


@contextmanager
def _place(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        got = f"{os.fspath(path)}: {error.strerror}"
        raise FileFormatError("A model must be written to a writable place", got, "Choose another path") from error
