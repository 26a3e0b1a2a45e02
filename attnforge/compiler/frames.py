"""Data frames in and out: columns are inputs by name, and values keep the index of the rows they belong to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError


def is_named_row(x: Any, names: tuple[str, ...] | None) -> bool:
    """Whether it is a Series that holds one point of several inputs by their names, as a row of a frame does."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(x, pandas.Series) or names is None or len(names) == 1:
        return False
    return not pandas.api.types.is_numeric_dtype(x.index)


def columns(frame: Any, names: tuple[str, ...] | None) -> dict[str, Any]:
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
    return {name: np.asarray(frame[name]) for name in names}


def framed(values: npt.NDArray[Any], inputs: Sequence[Any]) -> Any:
    """Values at the rows of a pandas DataFrame or Series as one, with its index; others as they are.

    Whoever hands in a frame has imported pandas; nobody else needs it.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not inputs or not isinstance(inputs[0], pandas.DataFrame | pandas.Series):
        return values
    return (pandas.Series if values.ndim == 1 else pandas.DataFrame)(values, index=inputs[0].index)
