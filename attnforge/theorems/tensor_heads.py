r"""Heads over product grids of anchors, side by side in one layer: what every fitted construction is made of.

A tensor head reads r affine forms $u = F x + t$ of the input and holds anchors on the product of r axes. Scores are
sums over the axes, so softmax weights are products, and
$$ \mathrm{head}(x) = \sum_{k_1 \dots k_r} \prod_a w^{(a)}_{k_a}(u_a)\; v_{k_1 \dots k_r} . $$
Keys hold one column of key and one of offset an axis; queries are linear in (x ; 1). The layer adds its heads: a sum of
terms is a layer of as many heads, with forms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.cells import product
from attnforge.network import Attention, Claims, Head, Linear, Network, Term
from attnforge.outward import round_to
from attnforge.targets import Target
from attnforge.theorems.construction import Construction, Cost

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TensorHead:
    """Forms (r, D) and offsets (r,), one axis a form, values (p_1, .., p_r, k)."""

    forms: Array
    offsets: Array
    axes: tuple[Axis, ...]
    values: Array

    @classmethod
    def on_inputs(cls, axes: tuple[Axis, ...], values: Array) -> TensorHead:
        """The forms are the inputs themselves."""
        return cls(np.eye(len(axes)), np.zeros(len(axes)), axes, values)

    @property
    def anchors(self) -> int:
        """Keys, ghosts counted."""
        return math.prod(len(axis) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class FittedPlan:
    """The heads of one layer, in words how they were chosen, and whether gaps follow a kink or a layer of f."""

    heads: tuple[TensorHead, ...]
    reason: str
    dtype: str = "float64"
    is_graded: bool = False


class HeadsConstruction(Construction[FittedPlan]):
    """A construction whose plan holds the heads: what is left to say is whom it accepts and how it sizes them."""

    def cost(self, target: Target, plan: FittedPlan) -> Cost:
        """Keys and values of every anchor."""
        return heads_cost(plan.heads, target.domain.shape[0])

    def build(self, target: Target, plan: FittedPlan) -> Network:
        """The weights."""
        return heads_network(plan.heads, target.domain.shape[0], self.name, plan.dtype)

    def bound(self, target: Target, plan: FittedPlan) -> dict[str, float]:
        """No theorem bounds it: an enclosure or a measurement of the network does."""
        return {"fit": math.inf}


def heads_network(heads: Sequence[TensorHead], inputs: int, construction: str, dtype: str) -> Network:
    """One layer of these heads behind the map x -> (x ; 1)."""
    encode = Linear((Term(np.eye(inputs, inputs + 1)),), np.eye(1, inputs + 1, inputs))
    attention = Attention(tuple(_head(head, construction, dtype) for head in heads))
    return Network((encode, attention), inputs, 1, construction=construction)


def heads_cost(heads: Sequence[TensorHead], inputs: int) -> Cost:
    """Keys with two columns an axis and k values, a query map a head."""
    anchors = sum(head.anchors for head in heads)
    keys = sum(head.anchors * (2 * len(head.axes) + head.values.shape[-1]) for head in heads)
    maps = sum((inputs + 1) * 2 * len(head.axes) + head.values.shape[-1] ** 2 for head in heads)
    return Cost.of(anchors, keys + maps + (inputs + 1) ** 2)


def _head(head: TensorHead, construction: str, dtype: str) -> Head:
    columns = [axis_columns(axis, dtype) for axis in head.axes]
    query = np.hstack([_query(head, a, parts.shape[1]) for a, parts in enumerate(columns)])
    order = product([np.arange(len(axis), dtype=np.float64) for axis in head.axes]).astype(np.int64)
    keys = np.hstack([parts[order[:, a]] for a, parts in enumerate(columns)])
    positions = np.column_stack([axis.positions[order[:, a]] for a, axis in enumerate(head.axes)])
    inside = np.all([axis.inside[order[:, a]] for a, axis in enumerate(head.axes)], axis=0)
    roles = tuple("anchor" if within else "ghost" for within in inside)
    k = head.values.shape[-1]
    plain = np.array_equal(head.forms, np.eye(head.forms.shape[1])) and not head.offsets.any()
    forms = None if plain else np.column_stack([head.forms, head.offsets])
    claims = Claims(construction, head.axes[0].sharpness, positions, roles, forms)
    return Head(query, np.eye(k), memory_keys=keys, memory_values=head.values.reshape(-1, k), claims=claims)


def axis_columns(axis: Axis, dtype: str) -> Array:
    """Keys and offsets (p, 2) of one axis; offsets that the dtype cannot hold are split in two, (p, 3)."""
    high = round_to(axis.offsets, dtype)
    offsets = [axis.offsets] if np.array_equal(high, axis.offsets) else [high, round_to(axis.offsets - high, dtype)]
    return np.column_stack([axis.keys, *offsets])


def _query(head: TensorHead, a: int, columns: int) -> Array:
    """From (x ; 1) to (linear u ; -square ; ..), u = (F x + t - origin) scale."""
    axis = head.axes[a]
    query = np.zeros((head.forms.shape[1] + 1, columns))
    query[:-1, 0] = axis.linear * axis.scale * head.forms[a]
    query[-1, 0] = axis.linear * axis.scale * (head.offsets[a] - axis.origin)
    query[-1, 1:] = -axis.square
    return query
