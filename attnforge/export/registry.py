"""Every format there is, one record each: the functions of :mod:`attnforge.export`, the shell and the tables follow.

A format ``f`` is a file ``to_f.py`` with a function ``f(model, path, dtype=None)``, and a record here.
"""

from __future__ import annotations

from importlib import import_module

from attnforge.export.formats import Format

_RECORDS = (
    Format(
        "onnx",
        lambda: import_module("attnforge.export.to_onnx").onnx,
        writes="a file; batch and sequence are dynamic",
        takes="`x` (batch, d), tokens (batch, n, d), or `Y` and `X` of two inputs; returns `y`",
        runs_with="onnxruntime",
        refuses="half types; more than 2 GB",
        suffix=".onnx",
        extra="onnx",
        packages=("onnx",),
    ),
    Format(
        "torch",
        lambda: import_module("attnforge.export.to_torch").torch,
        writes="a folder: `model.py`, `weights.pt`",
        takes="the same shapes: `from model import load; load()(x)`",
        runs_with="torch",
        refuses="half types",
    ),
    Format(
        "jax",
        lambda: import_module("attnforge.export.to_jax").jax,
        writes="a folder: `model.py`, `weights.npz`",
        takes="the same shapes: `from model import apply, load; apply(load(), x)`",
        runs_with="jax, numpy",
        refuses="half types",
    ),
    Format(
        "transformer_lens",
        lambda: import_module("attnforge.export.to_transformer_lens").transformer_lens,
        writes="a folder: `model.py`, `weights.pt`, `layout.json`; without a path it returns the model",
        takes="the same shapes: `from model import load; load()(x)`; `load().bridge` is the TransformerBridge",
        runs_with="torch, transformer-lens (the extra `lens`)",
        refuses="half types; more than 1,056 positions (constant keys of the largest head, tokens, one sink); more "
        "than 2^27 weights; any number of tokens, unless `tokens=` says how many at most",
    ),
    Format(
        "vnnlib",
        lambda: import_module("attnforge.export.to_vnnlib").vnnlib,
        writes="a folder: `network.onnx`, properties `vnnlib/*.vnnlib`, `instances.csv`, `answers.json`",
        takes="`x` (batch, d); a property names its entries `X_0`, ..., and those of `y` `Y_0`, ...",
        runs_with="a verifier, or onnxruntime",
        refuses="half types; what has no proved bound; all but functions of one point whose target is a formula or a "
        "ReLU network; bare networks",
        extra="onnx",
        packages=("onnx",),
    ),
)

FORMATS = {record.name: record for record in _RECORDS}
"""By name, in the order of the documentation."""
