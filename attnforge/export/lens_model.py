"""A function in attention weights as a stock TransformerLens model: `load()`, then `lens(x)`, or `lens.bridge`.

`lens.bridge` is the model itself, a TransformerBridge with its hooks; `lens.inputs(x)` is what it takes: the inputs at
the tokens of a sequence whose other positions (sink, slots of constant keys) are constants of its positional embedding.
Written by attnforge, and needing torch and transformer-lens alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

WEIGHTS, LAYOUT = "weights.pt", "layout.json"


class LensModel:
    """A TransformerBridge and where things are in it: what stands at every position, which heads are which.

    ``layout`` is plain data: ``positions``, ``blocks`` (of the network's layers of attention), ``heads`` (their names,
    block by block), ``keys`` (the names of the constant keys of each) and ``stream`` (a name a column of the residual
    stream) are for people; the rest says where inputs go.
    """

    def __init__(self, bridge: Any, layout: Mapping[str, Any]) -> None:
        self.bridge, self.layout = bridge, layout

    def __call__(self, x: Any, context: Any = None) -> Any:
        """Values at points or tokens, of the shapes that the compiled target has, without gradients."""
        given = self.inputs(x, context)
        with torch.no_grad():
            found = self.bridge(given)
        absent = len(self.positions) - given.shape[1]  # tokens that are fewer than there may be
        found = found[:, self.rows(self.layout["rows"][1] - absent)]
        found = found[:, 0] if self.layout["alone"] else found
        return found[..., 0] if self.layout["scalar"] else found

    @property
    def positions(self) -> list[str]:
        """What stands where in the sequence."""
        return list(self.layout["positions"])

    def rows(self, tokens: int) -> slice:
        """The positions of so many tokens."""
        return slice(self.layout["first"], self.layout["first"] + tokens)

    def inputs(self, x: Any, context: Any = None) -> torch.Tensor:
        """What the bridge takes: embeddings (batch, positions, d_model) of inputs; ids of a program's tokens."""
        if self.layout["vocabulary"] is not None:
            return self._ids(x)
        dtype = getattr(torch, self.layout["dtype"])
        tokens = torch.as_tensor(x, dtype=dtype)
        tokens = tokens.unsqueeze(-2) if self.layout["alone"] else tokens
        most = self.layout["rows"][0]
        if tokens.ndim != 3 or not (tokens.shape[1] == most or (self.layout["fewer"] and 1 <= tokens.shape[1] <= most)):
            raise ValueError(f"inputs are a batch of {most} tokens, got {tuple(torch.as_tensor(x).shape)}")
        absent = most - tokens.shape[1]
        found = tokens.new_zeros(len(tokens), len(self.positions) - absent, self.bridge.cfg.d_model)
        start, stop = self.layout["columns"]
        found[:, self.rows(tokens.shape[1]), start:stop] = tokens
        if self.layout["told"] is not None:
            self._tell(found, torch.as_tensor(context, dtype=dtype))
        return found

    def _tell(self, found: torch.Tensor, context: torch.Tensor) -> None:
        """Put the second input at its positions."""
        told = self.layout["told"]
        (first, count), (start, stop) = told["rows"], told["columns"]
        context = context.unsqueeze(-2) if told["alone"] else context
        if context.ndim != 3 or context.shape[1] != count:
            raise ValueError(f"the second input is a batch of {count} rows, got {tuple(context.shape)}")
        found[:, first : first + count, start:stop] = context

    def _ids(self, sequences: Sequence[Any]) -> torch.Tensor:
        """Id 0 at sink and slots, then one more than the place in the vocabulary."""
        if not isinstance(sequences[0], (list, tuple)):
            raise ValueError("a program takes a batch of sequences: lists of tokens, all of one length")
        places = {text: 1 + i for i, text in enumerate(self.layout["vocabulary"])}
        given = [[as_text(token) for token in each] for each in sequences]
        unknown = {text for each in given for text in each if text not in places}
        if unknown:
            raise ValueError(f"tokens are of the vocabulary {', '.join(places)}; got {', '.join(sorted(unknown))}")
        return torch.tensor([[0] * self.layout["first"] + [places[text] for text in each] for each in given])

    def names(self, block: int, head: int) -> list[str]:
        """A name for every position as a key of one head: its constant keys where it has any, tokens, the sink."""
        keys = self.layout["keys"][block][head]
        return [keys[i - 1] if 1 <= i <= len(keys) else name for i, name in enumerate(self.positions)]


def as_text(token: Any) -> str:
    """A token as the vocabulary lists it: 1, true, 1.0, -0.0 and "1" are five, and NumPy's are what they hold."""
    return json.dumps(token, default=lambda other: other.item() if hasattr(other, "item") else repr(other))


def boot(layout: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> LensModel:
    """The model of a layout with its weights."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge.sources.native import boot as boot_native  # TransformerBridge.boot_native

    dtype = getattr(torch, layout["dtype"])
    config = TransformerBridgeConfig(**layout["config"], dtype=dtype)
    bridge: Any = boot_native(config, dtype=dtype)
    bridge.load_state_dict(dict(state))
    return LensModel(bridge, layout)


def load(folder: Path = Path(__file__).parent) -> LensModel:
    """The model that a folder holds."""
    layout = json.loads((folder / LAYOUT).read_text("utf-8"))
    return boot(layout, torch.load(folder / WEIGHTS, weights_only=True))
