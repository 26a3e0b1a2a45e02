"""Callers' arrays, read in one place: lists, NumPy, torch and data frames in, the caller's kind of array out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float64]
Names = tuple[str, ...] | None


def is_tensor(x: Any) -> bool:
    """Whether it is a torch tensor; where torch was not imported, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def numbers(x: Any, names: Names = None) -> Any:
    """A dense tensor as it is, anything else as an array of real numbers: no masks, gaps, text, objects, complex ones.

    Columns of a frame, and entries of a Series that is a row of one, are taken by name.

    >>> numbers([1, 2]).tolist(), numbers([[0.5, True]]).dtype
    ([1, 2], dtype('float64'))
    """
    if is_tensor(x):
        check_dense(x)
        return x
    if hasattr(x, "columns") or _is_named_row(x, names):
        return stacked(_columns(x, names))
    check_unmasked(x)
    try:
        array = np.asarray(x)
    except Exception:  # whatever lists of unequal lengths, or an array of another library, raise
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        got = f"{x!r:.80}" if array.dtype.kind == "O" else f"{x!r:.80}, of dtype {array.dtype}"
        raise DomainError("Inputs must be real numbers", got, "Pass a NumPy array or a torch tensor")
    return array


def entries(x: Any) -> Any:
    """What an array, a tensor or a Series of one axis lists, as a list; anything else as it is."""
    if is_tensor(x):
        check_dense(x)
    check_unmasked(x)
    return x.tolist() if getattr(x, "ndim", 0) == 1 and hasattr(x, "tolist") else x


def check_unmasked(x: Any) -> None:
    """Raise where masks would be read as numbers."""
    if _is_masked(x):
        raise DomainError("Every input must be given", "a masked array", "Pass x.filled(value), or x.compressed()")


def check_dense(x: Any) -> None:
    """Raise unless a tensor holds a real number at every place."""
    import torch

    if not isinstance(x, torch.Tensor):
        raise DomainError("A module takes torch tensors", type(x).__name__, "Pass torch.as_tensor(x)")
    if x.layout != torch.strided or x.is_nested or x.is_quantized:
        got = "a nested or quantised one" if x.layout == torch.strided else f"layout {x.layout}"
        raise DomainError("Inputs must be dense tensors", got, "Pass x.to_dense(), or x.dequantize()")
    if x.is_complex():
        raise DomainError("Inputs must be real numbers", str(x.dtype), "Pass real numbers")


def float64(x: Any, names: Names = None) -> Array:
    """Numbers in NumPy's float64; tensors without their gradients, from any device.

    >>> float64(range(3)).tolist()
    [0.0, 1.0, 2.0]
    """
    found = numbers(x, names)
    if not is_tensor(found):
        with np.errstate(over="ignore"):  # what overflows is infinite, and is refused as such
            return np.asarray(found, dtype=np.float64)
    if found.is_meta:
        raise DomainError("Inputs must be dense tensors", "one of the meta device, without numbers", "Pass its numbers")
    return np.asarray(found.detach().double().cpu().numpy())


def tensor(x: Any, names: Names = None) -> Tensor:
    """Numbers as a tensor of their own: one as it is; float32 stays, other arrays become float64."""
    import torch

    found = numbers(x, names)
    if is_tensor(found):
        return found  # type: ignore[no-any-return]
    return torch.from_numpy(np.array(found, dtype=np.float32 if found.dtype == np.float32 else np.float64))


def tensors(*given: Any) -> tuple[list[Tensor], Any]:
    """All as tensors on one device, arrays in float64, and the dtype of the answer: torch's where one is a tensor."""
    import torch

    read = [numbers(x) for x in given]
    own = [x for x in read if is_tensor(x)]
    device = own[0].device if own else "cpu"
    made = [x.to(device) if is_tensor(x) else torch.from_numpy(np.array(x, dtype=np.float64)).to(device) for x in read]
    return made, kind_of(*read)


def alike(*given: Any) -> list[Any]:
    """All as tensors where one of them is, else as arrays in float64."""
    if any(map(is_tensor, given)):
        return [*tensors(*given)[0]]
    return [float64(x) for x in given]


def kind_of(*read: Any) -> Any:
    """The dtype of an answer: that of tensors or of float32 arrays; whole numbers in, real ones out."""
    if any(map(is_tensor, read)):
        import torch

        kind: Any = None
        for dtype in (x.dtype if is_tensor(x) else _plain(x[:0] if x.ndim else x).dtype for x in read):
            kind = dtype if kind is None else torch.promote_types(kind, dtype)
        return kind if kind.is_floating_point else torch.float64
    return np.dtype(np.float32 if all(x.dtype == np.float32 for x in read) else np.float64)


def returned(found: Tensor, kind: Any) -> Any:
    """A tensor in the caller's dtype: an array, or a number, where that is NumPy's."""
    if not isinstance(kind, np.dtype):
        return found.to(kind)
    array = found.detach().double().cpu().numpy().astype(kind)
    return array if array.ndim else kind.type(array)


def gathered(inputs: tuple[Any, ...], named: dict[str, Any], names: Names, called: str = "net") -> Any:
    """The points of ``net(x)``, or of ``net(x=..., y=...)``, whose shapes broadcast: inputs are the last axis."""
    if (inputs and named) or len(inputs) > 1 or not (inputs or named):
        wanted, got = f"Call {called}(x), or name every input as in {called}(x=..., y=...)", f"{len(inputs)} positional"
        raise DomainError(wanted, f"{got} and {len(named)} by name", "Pass one array, inputs along its last axis")
    if inputs:
        return numbers(inputs[0], names)
    if names is None or set(named) != set(names):
        expected = "none" if names is None else ", ".join(names)
        raise DomainError(f"The inputs are named {expected}", ", ".join(named), "Use these names")
    return stacked([named[name] for name in names])


def stacked(columns: Sequence[Any]) -> Any:
    """Inputs along the last axis; one input alone stays plain numbers."""
    read = [numbers(column) for column in columns]
    shapes = [tuple(x.shape) for x in read]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        got = f"shapes {', '.join(map(str, shapes))}"
        raise DomainError("Inputs by name must broadcast", got, "Give all of one length, or one number") from None
    if len(read) == 1 and len(shape) <= 1:
        return read[0]
    if any(map(is_tensor, read)):
        import torch

        parts = [x if is_tensor(x) else _plain(x) for x in read]
        return torch.stack([part.expand(shape) for part in parts], dim=-1)
    return np.stack(np.broadcast_arrays(*read), axis=-1)


def framed(values: npt.NDArray[Any], inputs: Sequence[Any]) -> Any:
    """Values at the rows of a pandas DataFrame or Series as one, with its index; others as they are.

    Whoever hands in a frame has imported pandas; nobody else needs it.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not inputs or not isinstance(inputs[0], pandas.DataFrame | pandas.Series):
        return values
    return (pandas.Series if values.ndim == 1 else pandas.DataFrame)(values, index=inputs[0].index)


def _plain(array: npt.NDArray[Any]) -> Tensor:
    """As torch has it: real numbers in float32 or float64, whole ones in int64 where they fit."""
    import torch

    wide = np.float64 if array.dtype.kind == "f" or array.dtype == np.uint64 else np.int64
    return torch.from_numpy(np.array(array, dtype=np.float32 if array.dtype == np.float32 else wide))


def _is_masked(x: Any) -> bool:
    """Whether it, or an array in a list, has a mask: np.asarray drops both."""
    if isinstance(x, list | tuple):
        return any(_is_masked(each) for each in x if not isinstance(each, float | int))
    return isinstance(x, np.ma.MaskedArray)


def _is_named_row(x: Any, names: Names) -> bool:
    """Whether it is a Series that holds one point of several inputs by their names, as a row of a frame does."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(x, pandas.Series) or names is None or len(names) == 1:
        return False
    return not pandas.api.types.is_numeric_dtype(x.index)


def _columns(frame: Any, names: Names) -> list[Any]:
    """The columns of a data frame, or the entries of a row, that the inputs are named after; it may have others."""
    have = [str(name) for name in (frame.columns if hasattr(frame, "columns") else frame.index)]
    if names is None:
        remedy = "Pass frame.to_numpy(), or compile with named intervals"
        raise DomainError("Columns are taken by name, and these inputs have none", f"columns {have}"[:200], remedy)
    missing = [name for name in names if name not in have]
    if missing:
        wanted = f"A data frame needs the columns {', '.join(names)}"
        raise DomainError(wanted, f"no column {', '.join(missing)} among {have}"[:200], "Rename its columns")
    twice = [name for name in names if have.count(name) > 1]
    if twice:
        raise DomainError(
            "Every input is one column", f"several columns {', '.join(twice)}"[:200], "Rename all but one"
        )
    return [np.asarray(frame[name]) for name in names]
