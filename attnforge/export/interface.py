"""What an exported model takes and returns: the shapes of a target, or the tokens of a bare network; and its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnforge.balls import dtype_name
from attnforge.errors import FileFormatError, RefusalError
from attnforge.files import write_whole
from attnforge.network import Network, rounded
from attnforge.targets import JointFunction

if TYPE_CHECKING:
    from attnforge.balls import DType

DTYPES = ("float64", "float32")


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
    """Of a compiled target, with its shapes; or of a bare Network, which takes tokens."""
    network = model if isinstance(model, Network) else model.network
    name = dtype_name(getattr(model, "dtype", "float64") if dtype is None else dtype)
    if name not in DTYPES:
        remedy = "Pass dtype='float32': half types round otherwise in every runtime"
        raise RefusalError("Models are exported in float64 or float32", name, remedy)
    run, context = rounded(network, name), None if network.context is None else "context"
    if isinstance(model, Network):
        return Exported(run, name, str(network).splitlines()[0], context=context)
    target = model.target
    about = f"{target.describe()}; {model.construction}; {model.certificate}"
    if isinstance(target, JointFunction):
        alone, told = (len(box.shape) == 1 for box in (target.query, target.keys))
        return Exported(run, name, about, "Y", "X", alone, told, target.outputs is None)
    if target.layout == "prompt":
        return Exported(run, name, about, context=context)
    return Exported(run, name, about, "x", None, target.layout == "function", False, target.outputs is None)


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in whole, or say why not."""
    try:
        write_whole(path, data)
    except OSError as error:
        got = f"{os.fspath(path)}: {error.strerror}"
        raise FileFormatError("A model must be written to a writable place", got, "Choose another path") from error


def write_folder(path: str | os.PathLike[str], files: dict[str, bytes]) -> None:
    """Write files into a folder, which is made where there is none."""
    try:
        Path(path).mkdir(exist_ok=True)
    except OSError as error:
        got = f"{os.fspath(path)}: {error.strerror}"
        raise FileFormatError("A model must be written to a writable place", got, "Choose another path") from error
    for name, data in files.items():
        write_file(Path(path) / name, data)
