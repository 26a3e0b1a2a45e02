"""JAX: a file of weights and one of a pure function, ``apply(weights, x)``, which needs nothing but jax and numpy."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.export.interface import Exported, exported, write_folder
from attnforge.export.lowering import Program, Step, lowered

if TYPE_CHECKING:
    from attnforge.outward import DType

SCRIPT, WEIGHTS = "model.py", "weights.npz"

PHRASES: dict[str, Callable[[Step, list[str]], str]] = {
    "matmul": lambda step, a: f"{a[0]} @ {a[1]}",
    "rows": lambda step, a: f"({a[0]}[..., None, :] @ {a[1]})[..., 0, :]",
    "add": lambda step, a: f"{a[0]} + {a[1]}",
    "multiply": lambda step, a: f"{a[0]} * {a[1]}",
    "sum": lambda step, a: f"{a[0]}.sum(axis=-1, keepdims=True)",
    "softmax": lambda step, a: f"softmax({a[0]})",
    "transpose": lambda step, a: f"jnp.swapaxes({a[0]}, -1, -2)",
    "concat": lambda step, a: f"jnp.concatenate([{', '.join(a)}], axis=-1)",
    "slice": lambda step, a: f"{a[0]}[..., {step.span[0]}:{step.span[1] if step.span[1] >= 0 else ''}]",
    "take": lambda step, a: f"{a[0]}[:, np.array({list(step.rows)})]",
    "place": lambda step, a: (
        f"jnp.zeros(({a[1]}.shape[0], {a[1]}.shape[1], {a[0]}.shape[-1]), {a[0]}.dtype)"
        f".at[:, np.array({list(step.rows)})].add({a[0]})"
    ),
}

HEADER = '''"""{about}

A pure function of its weights and inputs, written by attnforge: `apply(load(), {names})`.
"""

from pathlib import Path

import jax

jax.config.update("jax_enable_x64", {double})

import jax.numpy as jnp
import numpy as np


def load(path=Path(__file__).with_name("{weights}")):
    """The weights by their names."""
    with np.load(path) as stored:
        return {{name: jnp.asarray(stored[name]) for name in stored.files}}


def softmax(scores):
    """Written out: library kernels of attention compute it in float32."""
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def apply(weights, {names}):
    """{takes}"""
'''


def jax(model: Any, path: str | os.PathLike[str], dtype: DType | None = None) -> None:
    """Write a compiled target, or a Network, as a folder of weights and a pure function; jax is needed to run it."""
    found = exported(model, dtype)
    program = lowered(found.network)
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: array.astype(found.dtype) for name, array in program.constants.items()}
    np.savez(buffer, **arrays)
    names = ", ".join(found.names)
    header = HEADER.format(
        about=found.about.replace("\\", "\\\\").replace('"', "'"),
        names=names,
        weights=WEIGHTS,
        double=found.dtype == "float64",
        takes=f"Values at {names}, batched over the first axis.",
    )
    text = header + "".join(f"    {line}\n" for line in _lines(found, program))
    write_folder(path, {SCRIPT: text.encode(), WEIGHTS: buffer.getvalue()})


def _lines(found: Exported, program: Program) -> list[str]:
    """From the inputs to what is returned, a line a step."""
    lines, names = [], {"tokens": found.input, "context": found.context or ""}
    names |= {name: f'weights["{name}"]' for name in program.constants}
    for name, alone in ((found.input, found.alone), (found.context, found.told_alone)):
        if name is not None and alone:
            lines.append(f"{name} = {name}[:, None, :]  # every point is one token")
    for note, steps in groupby(program.steps, key=lambda step: step.note.split(",")[0]):
        lines.append(f"# {note}")
        for step in steps:
            given = [names.get(each, each) for each in step.inputs]
            lines.append(f"{step.name} = {PHRASES[step.operation](step, given)}")
    result = names.get(program.output, program.output)
    return [*lines, f"return {result}" + "[:, 0]" * found.alone + "[..., 0]" * found.scalar]
