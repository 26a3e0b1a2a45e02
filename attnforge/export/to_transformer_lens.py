"""TransformerLens: a native model of stock attention, whose hooks, caches and patches are everybody's.

``af.export.transformer_lens(net)`` returns it; with a path it writes a folder of weights, layout and a script that
boots it with torch and transformer-lens alone. :mod:`.self_attention` says what it is made of.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from attnforge.errors import RefusalError
from attnforge.export import lens_model
from attnforge.export.interface import Exported, exported, write_folder
from attnforge.export.lens_model import LensModel, as_text, boot
from attnforge.export.self_attention import PlainHead, PlainNetwork, check_size, plain
from attnforge.labels import Labels, labels_of
from attnforge.network import Network

if TYPE_CHECKING:
    from attnforge.outward import DType

Array = npt.NDArray[np.float64]

SCRIPT = "model.py"
SCALE = 2.0  # TransformerLens refuses to leave scores unscaled; products with two and halves of them are exact


def transformer_lens(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    dtype: DType | None = None,
    *,
    tokens: int | None = None,
    context: int | None = None,
) -> LensModel | None:
    """A compiled target, a program or a Network as a native model of TransformerLens; with a path, as a folder of it.

    Args:
        model: what is exported.
        path: a folder to write to, instead of returning the model.
        dtype: float64 or float32; as compiled unless given.
        tokens: the number of tokens, where the network takes any: at most so many then come in.
        context: the number of rows of the second input, where the network takes any.

    Returned is ``lens``: ``lens(x)`` runs it, ``lens.bridge`` is the ``TransformerBridge``, which takes
    ``lens.inputs(x)``: an embedding of every position with x at the tokens. A program takes sequences of its tokens.
    """
    found = exported(model, dtype)
    codes = _codes(model, tokens)
    rows = _count("tokens", found.network.tokens, len(codes[1]) if codes else tokens)
    told = 0
    if found.network.context is not None:
        told = _count("context", found.network.context[0], context)
    made = plain(found.network, rows, told)
    check_size(made)
    layout = _layout(found, made, model if codes else None) | _names(model, found.network, made)
    state = _state(made, getattr(torch, found.dtype), codes)
    if path is None:
        _require_library()
        return boot(layout, state)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    text = json.dumps(layout, indent=1)
    files = {
        SCRIPT: Path(lens_model.__file__).read_bytes(),
        lens_model.LAYOUT: text.encode(),
        lens_model.WEIGHTS: buffer.getvalue(),
    }
    write_folder(path, files)
    return None


def _require_library() -> None:
    try:
        import transformer_lens  # noqa: F401
    except ImportError:
        got, remedy = "no transformer_lens", "pip install 'attnforge[lens]'"
        raise RefusalError("Models of TransformerLens need the extra `lens`", got, remedy) from None


def _count(name: str, fixed: int | None, asked: int | None) -> int:
    """The number of rows: what the network says, or is asked for where it takes any."""
    if asked is None and fixed is not None:
        return fixed
    if asked is None:
        remedy = f"Pass {name}=8, say, to af.export.transformer_lens"
        raise RefusalError(f"A sequence has a largest length: `{name}` is needed here", "any number of rows", remedy)
    if asked < 1 or fixed not in (None, asked):
        wanted = "at least 1" if fixed is None else f"{fixed}, as the network says"
        raise RefusalError(f"`{name}` must be {wanted}", str(asked), "Leave it out" if fixed else "Pass another")
    return asked


def _codes(model: Any, tokens: int | None) -> tuple[Array, Array] | None:
    """Of a program, what each token of the vocabulary and each position adds to the inputs; None of anything else."""
    if not hasattr(model, "vocabulary"):
        return None
    length = model.max_length if tokens is None else tokens
    words = np.stack([model.encode([token])[0].numpy() for token in model.vocabulary])
    places = model.encode([model.vocabulary[0]] * length).numpy()
    return words, places - places[0]


def _texts(vocabulary: Iterable[Any]) -> list[str]:
    """The tokens as text, by which a model finds them."""
    found = list(map(as_text, vocabulary))
    twice = [text for text in found if found.count(text) > 1]
    if twice:
        got = f"several of {twice[0]:.40}"
        raise RefusalError("Tokens of an exported program differ as text", got, "Use strings or integers")
    return found


def _layout(found: Exported, made: PlainNetwork, program: Any) -> dict[str, Any]:
    """What a :class:`LensModel` knows, as plain data."""
    network = found.network
    told = None
    if network.context is not None:
        columns = [made.told_columns.start, made.told_columns.stop]
        told = {"rows": list(made.told), "columns": columns, "alone": found.told_alone}
    return {
        "about": found.about,
        "dtype": found.dtype,
        "positions": list(made.positions),
        "first": made.first,
        "rows": list(made.rows),
        "fewer": network.tokens is None,
        "columns": [made.columns.start, made.columns.stop],
        "told": told,
        "alone": found.alone,
        "scalar": found.scalar,
        "vocabulary": None if program is None else _texts(program.vocabulary),
        "blocks": list(made.blocks),
        "config": {
            "n_layers": len(made.layers),
            "n_heads": made.heads,
            "d_model": made.width,
            "d_head": made.head_width,
            "n_ctx": len(made.positions),
            "d_vocab": 1 + (0 if program is None else len(program.vocabulary)),
            "d_vocab_out": made.readout.shape[1],
            "attn_only": True,
            "normalization_type": None,
            "attention_dir": "bidirectional",
            "use_attn_scale": True,
            "attn_scale": SCALE,
            "init_weights": False,
        },
    }


def _names(model: Any, network: Network, made: PlainNetwork) -> dict[str, list[Any]]:
    """What each head is and what its constant keys are, block by block, in the words of the labels."""
    labels = model.labels() if hasattr(model, "labels") else labels_of(network)
    heads: list[list[str]] = [[kind] * len(layer) for kind, layer in zip(made.kinds, made.layers, strict=True)]
    keys: list[list[list[str]]] = [[[] for _ in layer] for layer in made.layers]
    for block, layer in zip(made.blocks, labels.attention, strict=True):
        heads[block] = [head.name if head.formula is None else f"{head.name}: {head.formula}" for head in layer.heads]
        keys[block] = [[str(key) for key in head.keys if key.kind == "constant"] for head in layer.heads]
    return {"heads": heads, "keys": keys, "stream": _stream(made, labels)}


def _stream(made: PlainNetwork, labels: Labels) -> list[str]:
    """A name for every column of the residual stream: positions, inputs, what heads have written there."""
    names = [f"is {name}" for name in made.positions] + [""] * (made.width - len(made.positions))
    names[made.columns] = labels.inputs
    names[made.told_columns] = [f"context[{i}]" for i in range(made.told_columns.stop - made.told_columns.start)]
    layers = dict(zip(made.blocks, labels.attention, strict=True))
    for block, columns in enumerate(made.written):
        for i in range(columns.start or 0, columns.stop):
            if block not in layers:
                names[i] = f"{made.kinds[block]} {block}[{i - columns.start}]"
            elif layers[block].columns[i - columns.start].writers:
                names[i] = layers[block].columns[i - columns.start].name
    return names


def _state(made: PlainNetwork, dtype: torch.dtype, codes: tuple[Array, Array] | None) -> dict[str, torch.Tensor]:
    """Weights by the names of the native model: a linear map is (outputs, inputs)."""
    places, words = np.eye(len(made.positions), made.width), np.zeros((1 + len(codes[0]) if codes else 1, made.width))
    if codes is not None:
        words[1:, made.columns] = codes[0]
        places[made.first : made.first + len(codes[1]), made.columns] = codes[1]
    arrays = {"tok_embed.weight": words, "pos.weight": places, "head.weight": made.readout.T}
    arrays["head.bias"] = np.zeros(made.readout.shape[1])
    for i, layer in enumerate(made.layers):
        for name, joined in _joined(made, layer).items():
            arrays[f"layers.{i}.attn.{name}.weight"] = joined
            arrays[f"layers.{i}.attn.{name}.bias"] = np.zeros(len(joined))
    return {name: torch.tensor(np.ascontiguousarray(array), dtype=dtype) for name, array in arrays.items()}


def _joined(made: PlainNetwork, layer: tuple[PlainHead, ...]) -> dict[str, Array]:
    """The maps of all heads of a layer, each padded to one width, one after the other."""
    wide, count = made.head_width, made.heads
    found = {name: np.zeros((count, wide, made.width)) for name in "qkv"} | {"o": np.zeros((count, wide, made.width))}
    for h, head in enumerate(layer):
        for name, part in (("q", SCALE * head.query), ("k", head.key), ("v", head.value)):
            found[name][h, : part.shape[1]] = part.T
        found["o"][h, : len(head.output)] = head.output
    joined = {name: array.reshape(count * wide, made.width) for name, array in found.items()}
    return joined | {"o": joined["o"].T}
