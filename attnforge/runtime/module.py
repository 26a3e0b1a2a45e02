"""A network as an ``nn.Module``: linear maps and softmax attention, batch first, any dtype, differentiable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from attnforge.arrays import check_dense
from attnforge.errors import DomainError, RefusalError
from attnforge.lemmas.product import factors_of
from attnforge.lemmas.shards import check_shards
from attnforge.lemmas.window import FEWEST, TAILS, rows_of
from attnforge.network import (
    Attention,
    Claims,
    Head,
    Layer,
    Linear,
    Network,
    Rows,
    Softmax,
    Term,
    constant_features,
    rounded,
    rows_named,
)
from attnforge.network.apply import check_rows
from attnforge.network.flatten import HEAD_WEIGHTS
from attnforge.network.layers import FEW
from attnforge.runtime.arithmetic import as_written, warn_of_reduced_precision
from attnforge.runtime.dense import HeadGroup, group_heads, joined, rows_key, write
from attnforge.runtime.factorised import FactorisedHead
from attnforge.runtime.hooks import BlockHooks, Blocks, HeadHooks, Hooked, hook_point, is_hooked, watched
from attnforge.runtime.sharded import ShardedHead
from attnforge.runtime.weights import check_fits, keep, weight
from attnforge.runtime.window import WindowHead
from attnforge.runtime.written_out import hooked_means

KERNELS = ("auto", "dense", "batched", "factorised", "window", "sharded")
AnyHead = HeadGroup | FactorisedHead | WindowHead | ShardedHead
WORTH = 16  # times as many keys as a window holds, from which on it is chosen


@dataclass(frozen=True)
class Running:
    """How heads run."""

    trainable: bool
    kernel: str
    shards: int


@dataclass(frozen=True, eq=False)
class Outline:
    """What a head is beside its weights."""

    query_rows: Rows
    key_rows: Rows | None
    claims: Claims | None


class AttentionNetwork(Hooked):
    """Runs a :class:`attnforge.network.Network`: (..., n, m) in, (..., n', m') out, in the module's own dtype.

    Inputs are cast to that dtype and outputs stay in it. Nothing is checked: NaN and points outside the certified
    domain pass through. ``torch.autocast`` around it changes nothing. With ``trainable`` every weight is a parameter,
    else a buffer; and heads run densely, since training keeps no structure. ``module.to(dtype)`` gives the module that
    would have been made in that dtype. Tokens, scores, patterns and values of heads have hook points
    (:mod:`attnforge.runtime.hooks`).

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
        heads = [len(layer.heads) if isinstance(layer, Attention) else 0 for layer in network.layers]
        super().__init__(Blocks(heads), hook_point())
        if kernel not in KERNELS:
            raise DomainError(f"`kernel` must be one of {', '.join(KERNELS)}", repr(kernel), "Use 'auto'")
        _check_served(network, kernel, trainable)
        _check_shards(network, kernel, trainable, shards)
        self.runs = Running(trainable, "dense" if trainable else kernel, shards)
        windows = _windows(network, dtype, self.runs.kernel)
        distinct = {id(layer): layer for layer in network.layers}  # one applied again has its weights once
        places = {each: i for i, each in enumerate(distinct)}
        self.order = [places[id(layer)] for layer in network.layers]
        self.layers = nn.ModuleList(_module(layer, dtype, self.runs, windows) for layer in distinct.values())
        self.context_layers = nn.ModuleList(LinearLayer(layer, dtype, trainable) for layer in network.context_layers)
        self.features, self.tokens, self.context = network.features, network.tokens, network.context
        self.construction = network.construction
        self.least, self.least_told = rows_named(network, "state"), rows_named(network, "context")
        self.dtype = dtype
        self.register_load_state_dict_post_hook(_keep_dtype)  # type: ignore[no-untyped-call]

    def forward(self, tokens: Tensor, context: Tensor | None = None) -> Tensor:
        """The network's output."""
        _check_shape(self, tokens)
        warn_of_reduced_precision(self.dtype, tokens.device)
        with as_written(tokens.device):
            state, second = self._first(tokens), self._second(tokens, context)
            for layer, hooks in self._applied():
                state = _step(layer, hooks, state, second)
        return state.reshape(*tokens.shape[:-2], *state.shape[-2:])

    def states(self, tokens: Tensor, period: int) -> list[Tensor]:
        """The tokens (..., n, m) after every ``period`` layers, of a network of one input."""
        _check_shape(self, tokens)
        warn_of_reduced_precision(self.dtype, tokens.device)
        found = []
        with as_written(tokens.device):
            state = self._first(tokens)
            for i, (layer, hooks) in enumerate(self._applied(), start=1):
                state = _step(layer, hooks, state, None)
                if i % period == 0:
                    found.append(state.reshape(*tokens.shape[:-2], *state.shape[-2:]))
        return found

    def attention(self, tokens: Tensor, context: Tensor | None = None) -> list[list[Tensor]]:
        """For each layer of attention, for each head, the softmax weights (..., query, key)."""
        _check_shape(self, tokens)
        warn_of_reduced_precision(self.dtype, tokens.device)
        found = []
        with as_written(tokens.device):
            state, second = self._first(tokens), self._second(tokens, context)
            for layer, hooks in self._applied():
                if isinstance(layer, AttentionLayer):
                    weights = layer.weights(state, second)
                    found.append([w.reshape(*tokens.shape[:-2], *w.shape[-2:]) for w in weights])
                state = _step(layer, hooks, state, second)
        return found

    def layer(self, place: int) -> nn.Module:
        """The layer that is applied at a place: the same one at several where it repeats."""
        return self.layers[self.order[place]]

    def network(self) -> Network:
        """The network whose weights are those of the module at present."""
        listed = [layer.read() for layer in self.layers if isinstance(layer, AnyLayer)]
        told = tuple(layer.read() for layer in self.context_layers if isinstance(layer, LinearLayer))
        layers = tuple(listed[i] for i in self.order)
        return Network(layers, self.features, self.tokens, self.context, self.construction, told)

    def _first(self, tokens: Tensor) -> Tensor:
        """The tokens (batch, n, m) that enter the first layer."""
        return _seen(self.hook_resid, tokens.to(self.dtype).reshape(-1, *tokens.shape[-2:]))

    def _applied(self) -> list[tuple[nn.Module, BlockHooks | None]]:
        """The layers as they are applied, and their points, where somebody has asked for them."""
        layers, blocks = list(self.layers), self.blocks
        if blocks.are_made:
            return [(layers[at], blocks.at(i)) for i, at in enumerate(self.order)]
        return [(layers[at], None) for at in self.order]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Like any module; in another dtype, heads that run by windows are made anew, as they would have been."""
        dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        others = {}
        if dtype != self.dtype:
            others = self._without_windows(dtype)
            kept = (layer for i, layer in enumerate(self.layers) if i not in others)
            for part in (*kept, *self.context_layers):
                for tensor in (*part.parameters(), *part.buffers()):
                    check_fits(tensor, dtype)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.dtype = dtype
        for i, layer in others.items():
            self.layers[i] = layer._apply(fn)  # type: ignore[no-untyped-call]
        return self

    def _without_windows(self, dtype: torch.dtype) -> dict[int, AttentionLayer]:
        """Layers whose kernels depend on the dtype, as they are in another one."""
        held = [i for i, layer in enumerate(self.layers) if isinstance(layer, AttentionLayer) and layer.has_windows]
        if not held:
            return {}
        network = self.network()
        windows, found = _windows(network, dtype, self.runs.kernel), {}
        for i in held:
            layer = network.layers[self.order.index(i)]
            assert isinstance(layer, Attention)
            found[i] = AttentionLayer(layer, dtype, self.runs, windows)
        return found

    def _second(self, tokens: Tensor, context: Tensor | None) -> Tensor | None:
        """The second input as attention reads it, (batch, N, m), or (1, N, m) where one serves the whole batch."""
        if context is None:
            return None
        if self.context is None:
            raise DomainError("This network reads one input", "a second one", "Call net(X)")
        check_dense(context)
        rows, features = self.context
        fits = context.dim() >= 2 and rows in (None, context.shape[-2]) and features == context.shape[-1]
        if not fits:
            wanted = f"The network's second input has shape (..., {rows or 'n'}, {features})"
            raise DomainError(wanted, f"shape {tuple(context.shape)}", "Reshape it")
        if rows is None:
            check_rows("rows of its second input", context.shape[-2], self.least_told)
        shape = context.shape[-2:]
        if math.prod(context.shape[:-2]) != 1:
            context = context.expand(*tokens.shape[:-2], *shape)
        second = context.to(self.dtype).reshape(-1, *shape)
        for layer in self.context_layers:
            second = layer(second)
        return second


class Shaped(Hooked):
    """A network behind the shapes that its users know; it has the hook points of the network, by the same names."""

    def __init__(self, core: AttentionNetwork) -> None:
        super().__init__(core.blocks, core.hook_resid)
        self.core = core

    @property
    def dtype(self) -> torch.dtype:
        """What it runs in."""
        return self.core.dtype

    def network(self) -> Network:
        """The network whose weights are those of the module at present."""
        return self.core.network()


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

    def read(self) -> Linear:
        """The layer of a network, of the weights at present."""
        terms = (Term(weight(self, f"map{i}"), weight(self, f"mix{i}")) for i in range(self.count))
        return Linear(tuple(terms), weight(self, "constant"))

    @staticmethod
    def _term(state: Tensor, feature_map: Tensor | None, mix: Tensor | None) -> Tensor:
        if feature_map is not None:
            own = feature_map.dim() == 3
            state = (state.unsqueeze(-2) @ feature_map).squeeze(-2) if own else state @ feature_map
        return state if mix is None else mix @ state


class AttentionLayer(nn.Module):
    """Groups of like heads, each run at once; one product for all that write alike."""

    def __init__(self, layer: Attention, dtype: torch.dtype, runs: Running, windows: list[WindowHead]) -> None:
        super().__init__()
        self.order, groups = group_heads(layer.heads)
        alike: dict[object, list[int]] = {}
        kernels: list[nn.Module] = []
        left = iter([windows[layer.heads.index(head)] for heads in groups for head in heads] if windows else ())
        for heads in groups:
            made = list(islice(left, len(heads))) if windows else _kernels(heads, dtype, runs)
            alike.setdefault(rows_key(heads[0].query_rows), []).extend(range(len(kernels), len(kernels) + len(made)))
            kernels += made
        self.groups = nn.ModuleList(kernels)
        self.alike = list(alike.values())
        self.residual = layer.residual
        self.outlines = [Outline(head.query_rows, head.key_rows, head.claims) for head in layer.heads]
        self.has_windows = bool(windows)

    def forward(
        self, state: Tensor, context: Tensor | None = None, hooks: Mapping[int, HeadHooks] | None = None
    ) -> Tensor:
        """The heads' sum at their query rows, plus the input with ``residual``; ``hooks`` are those of some heads."""
        total = state if self.residual else None
        groups = [group for group in self.groups if isinstance(group, AnyHead)]
        watched = {} if hooks is None else self._by_group(hooks)
        for members in self.alike:
            means = [
                hooked_means(groups[i], watched[i], state, context) if i in watched else groups[i](state, context)
                for i in members
            ]
            total = write([groups[i] for i in members], joined(means, 0), state, total)
        assert total is not None
        return total

    def weights(self, state: Tensor, context: Tensor | None = None) -> list[Tensor]:
        """Softmax weights (batch, query, key) of every head, in the network's order."""
        groups = [group for group in self.groups if isinstance(group, AnyHead)]
        found = [weights for group in groups for weights in group.weights(state, context)]
        return [found[i] for i in self.order]

    def read(self) -> Attention:
        """The layer of a network, of the weights at present."""
        groups = [group for group in self.groups if isinstance(group, AnyHead)]
        read = [{name: weight(group, name) for name in HEAD_WEIGHTS} for group in groups]
        heads = []
        for (group, at), outline in zip(self._places(), self.outlines, strict=True):
            own = {name: None if array is None else array[at] for name, array in read[group].items()}
            heads.append(Head(**own, **vars(outline)))  # type: ignore[arg-type]
        return Attention(tuple(heads), self.residual)

    def _places(self) -> list[tuple[int, int]]:
        """For every head the group that runs it, and its number there."""
        groups = [group for group in self.groups if isinstance(group, AnyHead)]
        flat = [(i, j) for i, group in enumerate(groups) for j in range(len(group.output))]
        return [flat[at] for at in self.order]

    def _by_group(self, hooks: Mapping[int, HeadHooks]) -> dict[int, dict[int, HeadHooks]]:
        """The hooks of the heads of every group that has some."""
        found: dict[int, dict[int, HeadHooks]] = {}
        for head, (group, at) in enumerate(self._places()):
            if head in hooks:
                found.setdefault(group, {})[at] = hooks[head]
        return found


class SoftmaxLayer(nn.Module):
    """Softmax over the features of each token."""

    def forward(self, state: Tensor, _context: Tensor | None = None) -> Tensor:
        """The softmax."""
        return torch.softmax(state, dim=-1)

    def read(self) -> Softmax:
        """The layer of a network."""
        return Softmax()


AnyLayer = LinearLayer | AttentionLayer | SoftmaxLayer


def _module(layer: Layer, dtype: torch.dtype, runs: Running, windows: list[WindowHead]) -> nn.Module:
    if isinstance(layer, Linear):
        return LinearLayer(layer, dtype, runs.trainable)
    if isinstance(layer, Attention):
        return AttentionLayer(layer, dtype, runs, windows)
    return SoftmaxLayer()


def _step(layer: nn.Module, hooks: BlockHooks | None, state: Tensor, second: Tensor | None) -> Tensor:
    """The tokens after a layer, by way of its hooks."""
    if hooks is None:
        return layer(state, second)  # type: ignore[no-any-return]
    attached = hooks.attached()
    return _seen(hooks.hook_resid, layer(state, second, attached) if attached else layer(state, second))


def _seen(point: nn.Module, state: Tensor) -> Tensor:
    """The tokens by way of their hooks, which may write to a copy: others, or the caller, may hold the same ones."""
    return watched(point, state.clone()) if is_hooked(point) else state


def _keep_dtype(module: AttentionNetwork, _missing: object) -> None:
    """Whatever is loaded runs in the module's dtype, as if it had been copied into its weights."""
    module.layers.to(module.dtype)
    module.context_layers.to(module.dtype)


def _kernels(heads: list[Head], dtype: torch.dtype, runs: Running) -> list[nn.Module]:
    """Like heads, each factorised or in shards, or all together densely."""
    if runs.kernel == "sharded":
        small = heads[0].is_small
        return [HeadGroup(heads, dtype, False)] if small else [ShardedHead(head, dtype, runs.shards) for head in heads]
    dense = runs.kernel in ("dense", "batched")
    served = [] if dense else [found for head in heads if (found := factors(head)) is not None]
    if len(served) < len(heads):
        return [HeadGroup(heads, dtype, runs.trainable)]
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
    check_dense(tokens)
    fits = tokens.dim() >= 2 and tokens.shape[-1] == module.features and module.tokens in (None, tokens.shape[-2])
    if not fits:
        wanted = f"(..., {module.tokens or 'n'}, {module.features})"
        raise DomainError(f"The network takes tensors of shape {wanted}", f"shape {tuple(tokens.shape)}")
    if module.tokens is None:
        check_rows("tokens", tokens.shape[-2], module.least)
