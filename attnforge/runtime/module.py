"""A network as an ``nn.Module``: linear maps and softmax attention, batch first, any dtype, differentiable."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from attnforge.errors import DomainError, RefusalError
from attnforge.lemmas.product import factors_of
from attnforge.lemmas.shards import check_shards
from attnforge.lemmas.window import FEWEST, TAILS, rows_of
from attnforge.network import (
    Attention,
    Head,
    Layer,
    Linear,
    Network,
    constant_features,
    rounded,
    rows_named,
)
from attnforge.network.apply import check_rows
from attnforge.network.layers import FEW
from attnforge.runtime.arithmetic import as_written, warn_of_reduced_precision
from attnforge.runtime.dense import HeadGroup, group_heads, rows_key, write
from attnforge.runtime.factorised import FactorisedHead
from attnforge.runtime.sharded import ShardedHead
from attnforge.runtime.weights import keep
from attnforge.runtime.window import WindowHead

KERNELS = ("auto", "dense", "batched", "factorised", "window", "sharded")
AnyHead = HeadGroup | FactorisedHead | WindowHead | ShardedHead
WORTH = 16  # times as many keys as a window holds, from which on it is chosen


class AttentionNetwork(nn.Module):
    """Runs a :class:`attnforge.network.Network`: (..., n, m) in, (..., n', m') out, in the module's own dtype.

    Inputs are cast to that dtype and outputs stay in it. Nothing is checked: NaN and points outside the certified
    domain pass through. ``torch.autocast`` around it changes nothing. With ``trainable`` every weight is a parameter,
    else a buffer; and heads run densely, since training keeps no structure.

    ``kernel``: ``auto`` runs like heads of few keys ``batched``, their softmax written out, heads whose keys are a
    product of small sets ``factorised``, many keys in even rows by ``window`` (in float64), others ``dense``; or one of
    these for all heads, refused where it cannot serve. Heads that are ``sharded`` have their keys in so many
    ``shards``, taken one after the other, or by other processes (:mod:`.many_machines`).
    """

    def __init__(
        self,
        network: Network,
        dtype: torch.dtype,
        trainable: bool = False,
        kernel: str = "auto",
        shards: int = 1,
    ) -> None:
        super().__init__()
        if kernel not in KERNELS:
            raise DomainError(f"`kernel` must be one of {', '.join(KERNELS)}", repr(kernel), "Use 'auto'")
        _check_served(network, kernel, trainable)
        _check_shards(network, kernel, trainable, shards)
        kernel = "dense" if trainable else kernel
        windows = _windows(network, dtype, kernel)
        made = {id(layer): _module(layer, dtype, trainable, kernel, windows, shards) for layer in network.layers}
        self.layers = nn.ModuleList(
            made[id(layer)] for layer in network.layers
        )  # one applied again has its weights once
        self.context_layers = nn.ModuleList(LinearLayer(layer, dtype, trainable) for layer in network.context_layers)
        self.features, self.tokens, self.dtype = network.features, network.tokens, dtype
        self.context = network.context
        self.least, self.least_told = rows_named(network, "state"), rows_named(network, "context")

    def forward(self, tokens: Tensor, context: Tensor | None = None) -> Tensor:
        """The network's output."""
        _check_shape(self, tokens)
        warn_of_reduced_precision(self.dtype, tokens.device)
        with as_written(tokens.device):
            state = tokens.to(self.dtype).reshape(-1, *tokens.shape[-2:])
            second = self._second(tokens, context)
            for layer in self.layers:
                state = layer(state, second)
        return state.reshape(*tokens.shape[:-2], *state.shape[-2:])

    def states(self, tokens: Tensor, period: int) -> list[Tensor]:
        """The tokens (..., n, m) after every ``period`` layers, of a network of one input."""
        _check_shape(self, tokens)
        found = []
        with as_written(tokens.device):
            state = tokens.to(self.dtype).reshape(-1, *tokens.shape[-2:])
            for i, layer in enumerate(self.layers, start=1):
                state = layer(state)
                if i % period == 0:
                    found.append(state.reshape(*tokens.shape[:-2], *state.shape[-2:]))
        return found

    def attention(self, tokens: Tensor, context: Tensor | None = None) -> list[list[Tensor]]:
        """For each layer of attention, for each head, the softmax weights (..., query, key)."""
        _check_shape(self, tokens)
        found = []
        with as_written(tokens.device):
            state = tokens.to(self.dtype).reshape(-1, *tokens.shape[-2:])
            second = self._second(tokens, context)
            for layer in self.layers:
                if isinstance(layer, AttentionLayer):
                    weights = layer.weights(state, second)
                    found.append([w.reshape(*tokens.shape[:-2], *w.shape[-2:]) for w in weights])
                state = layer(state, second)
        return found

    def _second(self, tokens: Tensor, context: Tensor | None) -> Tensor | None:
        """The second input as attention reads it, (batch, N, m), or (1, N, m) where one serves the whole batch."""
        if context is None:
            return None
        if self.context is None:
            raise DomainError("This network reads one input", "a second one", "Call net(X)")
        rows, features = self.context
        fits = context.dim() >= 2 and rows in (None, context.shape[-2]) and features == context.shape[-1]
        if not fits:
            wanted = f"The network's second input has shape (..., {rows or 'n'}, {features})"
            raise DomainError(wanted, f"shape {tuple(context.shape)}", "Reshape it")
        if rows is None:
            check_rows("rows of its second input", context.shape[-2], self.least_told)
        shape = context.shape[-2:]
        if context.shape[:-2].numel() != 1:
            context = context.expand(*tokens.shape[:-2], *shape)
        second = context.to(self.dtype).reshape(-1, *shape)
        for layer in self.context_layers:
            second = layer(second)
        return second


class LinearLayer(nn.Module):
    """Z -> sum_i Q_i Z P_i + R."""

    constant: Tensor | None

    def __init__(self, layer: Linear, dtype: torch.dtype, trainable: bool) -> None:
        super().__init__()
        self.count = len(layer.terms)
        for i, term in enumerate(layer.terms):
            keep(self, f"map{i}", term.map, dtype, trainable)
            keep(self, f"mix{i}", term.mix, dtype, trainable)
        keep(self, "constant", layer.constant, dtype, trainable)

    def forward(self, state: Tensor, _context: Tensor | None = None) -> Tensor:
        """The sum of the terms and the constant."""
        parts = [self._term(state, getattr(self, f"map{i}"), getattr(self, f"mix{i}")) for i in range(self.count)]
        if self.constant is not None:
            parts.append(self.constant.expand(state.shape[0], -1, -1))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    @staticmethod
    def _term(state: Tensor, feature_map: Tensor | None, mix: Tensor | None) -> Tensor:
        if feature_map is not None:
            own = feature_map.dim() == 3
            state = (state.unsqueeze(-2) @ feature_map).squeeze(-2) if own else state @ feature_map
        return state if mix is None else mix @ state


class AttentionLayer(nn.Module):
    """Groups of like heads, each run at once; one product for all that write alike."""

    def __init__(
        self,
        layer: Attention,
        dtype: torch.dtype,
        trainable: bool,
        kernel: str,
        windows: list[WindowHead],
        shards: int,
    ) -> None:
        super().__init__()
        self.order, groups = group_heads(layer.heads)
        alike: dict[object, list[int]] = {}
        kernels: list[nn.Module] = []
        left = iter([windows[layer.heads.index(head)] for heads in groups for head in heads] if windows else ())
        for heads in groups:
            made = list(islice(left, len(heads))) if windows else _kernels(heads, dtype, trainable, kernel, shards)
            alike.setdefault(rows_key(heads[0].query_rows), []).extend(range(len(kernels), len(kernels) + len(made)))
            kernels += made
        self.groups = nn.ModuleList(kernels)
        self.alike = list(alike.values())
        self.residual = layer.residual

    def forward(self, state: Tensor, context: Tensor | None = None) -> Tensor:
        """The heads' sum at their query rows, plus the input with ``residual``."""
        total = state if self.residual else None
        groups = [group for group in self.groups if isinstance(group, AnyHead)]
        for members in self.alike:
            total = write([groups[i] for i in members], state, context, total)
        assert total is not None
        return total

    def weights(self, state: Tensor, context: Tensor | None = None) -> list[Tensor]:
        """Softmax weights (batch, query, key) of every head, in the network's order."""
        groups = [group for group in self.groups if isinstance(group, AnyHead)]
        found = [weights for group in groups for weights in group.weights(state, context)]
        return [found[i] for i in self.order]


class SoftmaxLayer(nn.Module):
    """Softmax over the features of each token."""

    def forward(self, state: Tensor, _context: Tensor | None = None) -> Tensor:
        """The softmax."""
        return torch.softmax(state, dim=-1)


def _module(
    layer: Layer, dtype: torch.dtype, trainable: bool, kernel: str, windows: list[WindowHead], shards: int
) -> nn.Module:
    if isinstance(layer, Linear):
        return LinearLayer(layer, dtype, trainable)
    if isinstance(layer, Attention):
        return AttentionLayer(layer, dtype, trainable, kernel, windows, shards)
    return SoftmaxLayer()


def _kernels(heads: list[Head], dtype: torch.dtype, trainable: bool, kernel: str, shards: int) -> list[nn.Module]:
    """Like heads, each factorised or in shards, or all together densely."""
    if kernel == "sharded":
        small = heads[0].is_small
        return [HeadGroup(heads, dtype, False)] if small else [ShardedHead(head, dtype, shards) for head in heads]
    served = [] if kernel in ("dense", "batched") else [found for head in heads if (found := factors(head)) is not None]
    if len(served) < len(heads):
        return [HeadGroup(heads, dtype, trainable)]
    return [FactorisedHead(head, found, dtype) for head, found in zip(heads, served, strict=True)]


def factors(head: Head) -> list[list[int]] | None:
    """The columns of each factor of its keys; None where the factorised kernel does not serve: it takes constants."""
    return None if head.memory_keys is None or head.key_rows is not None else factors_of(head.memory_keys)


def _windows(network: Network, dtype: torch.dtype, kernel: str) -> list[WindowHead]:
    """All heads by windows, where that is asked for or, in float64, worth it; else none."""
    name, forced = str(dtype).removeprefix("torch."), kernel == "window"
    many = all(head.memory_size >= FEWEST for head in network.heads)
    wanted = name in TAILS and (forced or (kernel == "auto" and name == "float64" and many))
    token = constant_features(rounded(network, name)) if wanted else None
    if token is None:
        return _refused_window() if forced else []
    found = []
    for head in rounded(network, name).heads:
        constant = head.memory_keys is not None and head.key_rows is None
        rows = rows_of(head.query, np.asarray(head.memory_keys), token) if constant else None
        if rows is None:
            return _refused_window() if forced else []
        found.append(WindowHead(head, rows, dtype, TAILS[name], forced))
    worth = all(WORTH * math.prod(each.counts) <= math.prod(each.sizes) for each in found)
    return found if forced or worth else []


def _refused_window() -> list[WindowHead]:
    requirement = "The window kernel needs heads over products of even rows, in float64 or float32"
    raise RefusalError(requirement, "other heads, or another dtype", "Use 'auto'")


def _check_served(network: Network, kernel: str, trainable: bool) -> None:
    """Raise where a kernel that was asked for cannot serve: heads of few keys are batched whatever it is."""
    large = [head for head in network.heads if not head.is_small]
    if kernel == "batched" and large:
        requirement = f"The batched kernel needs heads of at most {FEW} keys, their own token and constants"
        raise RefusalError(requirement, f"{len(large)} of more, or of other tokens", "Use 'auto'")
    if kernel == "factorised" and (trainable or not large or any(factors(head) is None for head in large)):
        got = "weights to be trained" if trainable else "keys that are no product, or few"
        raise RefusalError("The factorised kernel needs heads over products of constant keys", got, "Use 'auto'")


def _check_shards(network: Network, kernel: str, trainable: bool, shards: int) -> None:
    """Raise where keys cannot be cut so, or need not."""
    if kernel == "sharded":
        if trainable:
            raise RefusalError("Sharded keys are not trained", "trainable=True", "Use kernel='dense'")
        heads = [head for head in network.heads if not head.is_small]
        check_shards([None if head.key_rows is not None else head.memory_values for head in heads], shards)
    elif shards != 1:
        raise RefusalError("`shards` are those of the sharded kernel", f"kernel={kernel!r}", "Use kernel='sharded'")


def _check_shape(module: AttentionNetwork, tokens: Tensor) -> None:
    fits = tokens.dim() >= 2 and tokens.shape[-1] == module.features and module.tokens in (None, tokens.shape[-2])
    if not fits:
        wanted = f"(..., {module.tokens or 'n'}, {module.features})"
        raise DomainError(f"The network takes tensors of shape {wanted}", f"shape {tuple(tokens.shape)}")
    if module.tokens is None:
        check_rows("tokens", tokens.shape[-2], module.least)
