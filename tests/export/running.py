"""How what each format writes is run: by its own library, as people run it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import attnforge as af

Array = npt.NDArray[Any]


def script(folder: Path) -> ModuleType:
    """The script of an exported folder, imported."""
    spec = importlib.util.spec_from_file_location("exported_model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_onnx(path: Path, given: Sequence[Array]) -> Array:
    """By ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    named = {each.name: array for each, array in zip(session.get_inputs(), given, strict=True)}
    return np.asarray(session.run(None, named)[0])


def run_torch(path: Path, given: Sequence[Array]) -> Array:
    """By torch, from the folder's script."""
    return np.asarray(script(path).load()(*map(torch.from_numpy, given)).numpy())


def run_jax(path: Path, given: Sequence[Array]) -> Array:
    """By JAX, from the folder's script."""
    module = script(path)
    return np.asarray(module.apply(module.load(), *given))


RUN: dict[str, Callable[[Path, Sequence[Array]], Array]] = {
    "onnx": run_onnx,
    "torch": run_torch,
    "jax": run_jax,
    "transformer_lens": run_torch,
}


def ran(name: str, model: Any, given: Sequence[Array], path: Path, dtype: str | None = None) -> Array:
    """What the exported model computes."""
    getattr(af.export, name)(model, path, dtype=dtype, **(lengths(model, given) if name == "transformer_lens" else {}))
    return RUN[name](path, [np.ascontiguousarray(array) for array in given])


def lengths(model: Any, given: Sequence[Array]) -> dict[str, int]:
    """The numbers of rows, where a network takes any, for a format that is made for a largest one."""
    network = getattr(model, "network", model)
    free = {"tokens": network.tokens, "context": 1 if network.context is None else network.context[0]}
    return {name: given[i].shape[-2] for i, (name, count) in enumerate(free.items()) if count is None}
