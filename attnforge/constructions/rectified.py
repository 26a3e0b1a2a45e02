"""ReLU networks, head by neuron."""

from __future__ import annotations

from typing import Any, Unpack

from attnforge.compiler.budget import Asked
from attnforge.compiler.compiled import Compiled
from attnforge.constructions.finishing import count_of, finish
from attnforge.errors import RefusalError
from attnforge.outward import DType, dtype_name
from attnforge.targets import Box, ReluNetwork
from attnforge.theorems.relu_network import ReluNetworkConstruction, anchor_plan, even_plan, gate_plan


def relu_network(
    module: Any,
    domain: Box,
    *,
    by: str = "gate",
    anchors: int | None = None,
    tol: float | None = None,
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""A torch ReLU network as an attention-only network, one head a neuron (after Hu et al. 2025; the gate is ours).

    Proof and error budget: :mod:`attnforge.theorems.relu_network`. With gates the output is the module's, to rounding.

    Args:
        module: ``nn.Sequential`` of Linear, ReLU, LeakyReLU, Hardtanh, ReLU6 (nested ones too).
        domain: a box of d inputs; of shape (n, d) to apply the module to every token of a sequence.
        by: ``"gate"``, or ``"anchors"`` for the papers' anchored heads.
        anchors: with ``by="anchors"``, anchors a neuron; or give ``tol``, which is split over the layers.
        tol: with ``by="anchors"``, the error asked for, in exact arithmetic.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    Returns:
        A Compiled with the module's shapes: (..., d) to (..., k), or (..., n, d) to (..., n, k).

    >>> from torch import nn
    >>> net = relu_network(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)), Box(-1, 1))
    >>> net.heads, net.certificate.bound < 1e-13
    (4, True)
    """
    dtype = dtype_name(dtype)
    target = ReluNetwork.from_torch(module, domain)
    if by == "gate":
        plan = gate_plan(target, dtype)
    elif by == "anchors" and (anchors is None) != (tol is None):
        plan = anchor_plan(target, tol, dtype) if tol is not None else even_plan(target, _at_least_two(anchors), dtype)
    else:
        got = f"by={by!r}, anchors={anchors}, tol={tol}"
        raise RefusalError("`by` must be 'gate', or 'anchors' with either anchors= or tol=", got, "Choose one")
    return finish(ReluNetworkConstruction(), target, plan, dtype, asked)


def _at_least_two(anchors: Any) -> int:
    count = count_of("anchors", anchors)
    if count < 2:
        raise RefusalError("`anchors` must be at least 2", str(count), "Ask for more anchors")
    return count
