"""Stock torch: a folder of a state dict and one readable script of linear maps and attention, without attnforge."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch as library

from attnforge.export.interface import Exported, exported, one_line, write_folder
from attnforge.network import Attention, Head, Layer, Linear, Rows

if TYPE_CHECKING:
    from attnforge.outward import DType

Array = npt.NDArray[np.float64]

SCRIPT, WEIGHTS = "model.py", "weights.pt"

HEADER = '''"""{about}

Linear maps and softmax attention, written by attnforge and needing torch alone: `load()({names})`.
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention


def attend(query, keys, values):
    """Softmax attention, its scale in the weights already; widths are made equal, which fused kernels need."""
    width, out = query.shape[-1], values.shape[-1]
    values = pad(values, (0, max(width - out, 0)))
    query, keys = (pad(each, (0, max(out - width, 0))) for each in (query, keys))
    return scaled_dot_product_attention(query, keys, values, scale=1.0)[..., :out]


def beside(memory, rows):
    """Constant keys or values in front of those of tokens."""
    return torch.cat([memory.expand(*rows.shape[:-2], *memory.shape), rows], dim=-2)


def place(rows, like, indices):
    """Rows at their places among zeros, as many as there are tokens."""
    zeros = rows.new_zeros(*like.shape[:-1], rows.shape[-1])
    return zeros.index_add(-2, torch.tensor(indices, device=rows.device), rows)


class Model(nn.Module):
    """{about}"""

    def __init__(self):
        super().__init__()
{parts}

    def forward(self, {names}):
{lines}


def load(path=Path(__file__).with_name("{weights}")):
    """The model with its weights."""
    model = Model()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.requires_grad_(False)
'''


def torch(model: Any, path: str | os.PathLike[str], dtype: DType | None = None) -> None:
    """Write a compiled target, or a Network, as a folder of ``model.py`` and ``weights.pt``."""
    found = exported(model, dtype)
    script, buffer = _Script(found), io.BytesIO()
    text = script.text()
    library.save(script.state, buffer)
    write_folder(path, {SCRIPT: text.encode(), WEIGHTS: buffer.getvalue()})


class _Script:
    """The parts of the module, its state dict, and the lines of forward."""

    def __init__(self, found: Exported) -> None:
        self.found, self.dtype = found, getattr(library, found.dtype)
        self.parts: dict[str, str] = {}
        self.state: dict[str, library.Tensor] = {}
        self.lines: list[str] = []

    def text(self) -> str:
        """The script."""
        found, network = self.found, self.found.network
        self._line(f"tokens = {found.input}" + (".unsqueeze(-2)  # every point is one token" if found.alone else ""))
        if found.context is not None:
            self._line(f"context = {found.context}" + (".unsqueeze(-2)" if found.told_alone else ""))
        for i, told in enumerate(network.context_layers):
            self._linear(told, f"context_layer{i}", "context")
        seen: dict[int, str] = {}
        for i, layer in enumerate(network.layers):
            self._layer(layer, seen.setdefault(id(layer), f"layer{i}"))
        kept = "tokens" + ("[..., 0, :]" if found.alone else "") + ("[..., 0]" if found.scalar else "")
        self._line(f"return {kept}")
        about = found.about.replace("\\", "\\\\").replace('"', "'")
        parts, lines = ("\n".join(f"        {line}" for line in each) for each in (self.parts.values(), self.lines))
        return HEADER.format(
            about=about, names=", ".join(found.names), parts=parts or "        pass", lines=lines, weights=WEIGHTS
        )

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _kept(self, name: str, array: Array) -> str:
        """A constant of the module, by how it is read."""
        shape = ", ".join(map(str, array.shape))
        self.parts[name] = f'self.register_buffer("{name}", torch.zeros({shape}, dtype=torch.{self.found.dtype}))'
        self.state[name] = library.tensor(array, dtype=self.dtype)
        return f"self.{name}"

    def _map(self, name: str, matrix: Array, bias: Array | None = None) -> str:
        """A linear map, by how it is called."""
        inputs, outputs = matrix.shape
        options = f"bias={bias is not None}, dtype=torch.{self.found.dtype}"
        self.parts[name] = f"self.{name} = nn.Linear({inputs}, {outputs}, {options})"
        self.state[f"{name}.weight"] = library.tensor(np.ascontiguousarray(matrix.T), dtype=self.dtype)
        if bias is not None:
            self.state[f"{name}.bias"] = library.tensor(bias, dtype=self.dtype)
        return f"self.{name}"

    def _layer(self, layer: Layer, name: str) -> None:
        if isinstance(layer, Linear):
            self._linear(layer, name, "tokens")
        elif isinstance(layer, Attention):
            self._attention(layer, name)
        else:
            self._line("tokens = torch.softmax(tokens, dim=-1)  # over features")

    def _linear(self, layer: Linear, name: str, state: str) -> None:
        terms, constant = [], layer.constant
        for i, term in enumerate(layer.terms):
            text = state
            if term.map is not None and term.map.ndim == 3:
                text = f"({text}.unsqueeze(-2) @ {self._kept(f'{name}_map{i}', term.map)}).squeeze(-2)"
            elif term.map is not None:
                alone = len(layer.terms) == 1 and term.mix is None and constant is not None and len(constant) == 1
                bias = constant[0] if alone and constant is not None else None
                constant = None if alone else constant
                text = f"{self._map(f'{name}_map{i}', term.map, bias)}({text})"
            terms.append(text if term.mix is None else f"{self._kept(f'{name}_mix{i}', term.mix)} @ ({text})")
        if constant is not None:
            terms.append(self._kept(f"{name}_constant", constant))
        self._line(f"{state} = {' + '.join(terms)}")

    def _attention(self, layer: Attention, name: str) -> None:
        added = ["tokens"] if layer.residual else []
        for i, head in enumerate(layer.heads):
            self._head(head, f"{name}_head{i}")
            added.append(f"{name}_head{i}")
        self._line(f"tokens = {' + '.join(added)}")

    def _head(self, head: Head, name: str) -> None:
        role = f": {head.claims.formula or head.claims.construction}" if head.claims is not None else ""
        self._line(one_line(f"# {name}{role}"))
        own = head.key_rows is not None and head.key_rows.kind == "own"
        asking = _rows(head.query_rows, "tokens")
        self._line(f"query = {self._map(f'{name}_query', head.query)}({asking})")
        for part, text in zip(("keys", "values"), self._told(head, name, asking), strict=True):
            self._line(f"{part} = {text}")
        mean = "attend(query.unsqueeze(-2), keys, values).squeeze(-2)" if own else "attend(query, keys, values)"
        out = f"{self._map(f'{name}_output', head.output)}({mean})"
        if head.query_rows.indices is not None:
            out = f"place({out}, tokens, {head.query_rows.indices.tolist()})"
        self._line(f"{name} = {out}")

    def _told(self, head: Head, name: str, asking: str) -> tuple[str, str]:
        """Keys and values of a head: constants, tokens, or both."""
        found: list[str] = []
        for part in ("key", "value"):
            memory, matrix = getattr(head, f"memory_{part}s"), getattr(head, part)
            kept = None if memory is None else self._kept(f"{name}_memory_{part}s", memory)
            if head.key_rows is None or matrix is None:
                found.append(f"{kept}.expand(len(tokens), -1, -1)")
                continue
            if head.key_rows.kind == "own":
                rows = f"{asking}.unsqueeze(-2)"
            else:
                rows = _rows(head.key_rows, "context" if head.key_rows.source == "context" else "tokens")
            mapped = f"{self._map(f'{name}_{part}', matrix)}({rows})"
            found.append(mapped if kept is None else f"beside({kept}, {mapped})")
        return found[0], found[1]


def _rows(rows: Rows, source: str) -> str:
    return source if rows.indices is None else f"{source}[..., {rows.indices.tolist()}, :]"
