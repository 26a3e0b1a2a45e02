r"""A function as a prompt: frozen cross-attention weights that compute whatever function their second input spells out.

A head over constant keys sees its input through affine scores $s_k(x) = a_k \cdot x + b_k$ and answers
$\sum_k \mathrm{softmax}_k(s(x))\,v_k$. Nothing but $(a_k, b_k, v_k)$ depends on the function, so these become tokens
$$ T_k = (a_{k1}, \dots, a_{kd},\; b_{k1}, \dots, b_{kd},\; v_k) , \qquad \textstyle\sum_j b_{kj} = b_k , $$
and what is left is one head with query $(x, 1, \dots, 1)$ whose key and value maps pick columns of $T$: zeros and ones,
the same for every function, domain and tolerance. For anchors $c_k$ of sharpness $\beta$ the tokens are
$a_k = 2\beta c_k$, $b_{kj} = -\beta c_{kj}^2$: even the sharpness is in the prompt. Offsets are kept axis by axis: on a
product grid the score is then, number by number, a sum over the axes, which is what a proof makes use of.

So frozen weights are universal in context: every continuous function on a box has a prompt, of as many tokens as
anchors that the constructions need, and with the error of the head it was read from. In floating point too: maps of
zeros and ones lose nothing, so the frozen head meets the very numbers that :func:`memory_network` has as constant keys,
and a proof about the latter is one about the former.

What a frozen head cannot do is to count x from the middle of the domain: scores are rounded by a unit of
$|a_k \cdot x|$, which is large where a domain is far from zero, compared with its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term
from attnforge.targets import Target
from attnforge.theorems.construction import Construction, Cost

Array = npt.NDArray[np.float64]
Wide = npt.NDArray[np.longdouble]

NAME = "function_prompt"


@dataclass(frozen=True)
class PromptShape:
    """The columns of a token for d inputs and k outputs: slopes, offsets, values.

    >>> PromptShape(2, 1).width
    5
    """

    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        if self.inputs < 1 or self.outputs < 1:
            got = f"{self.inputs} inputs, {self.outputs} outputs"
            raise TargetError("A function has at least one input and one output", got, "Give it some")

    @property
    def scores(self) -> int:
        """Columns that make scores."""
        return 2 * self.inputs

    @property
    def width(self) -> int:
        """Features of a token."""
        return self.scores + self.outputs

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise unless this is the shape of a prompt, or of a batch of them."""
        if len(shape) < 2 or shape[-1] != self.width or shape[-2] == 0:
            wanted = f"A prompt for {self.inputs} inputs and {self.outputs} outputs has shape (..., n, {self.width})"
            raise TargetError(wanted, f"shape {shape}", "Make it by function_prompt for as many inputs and outputs")


def frozen_network(shape: PromptShape) -> Network:
    """The frozen network: x (1, d) and a prompt of any number of tokens to (1, k).

    >>> prompt = np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 5.0]])  # two equal scores, values 3 and 5
    >>> frozen_network(PromptShape(1, 1))(np.array([[0.7]]), prompt)
    array([[4.]])
    """
    read = np.eye(shape.width)
    head = Head(
        np.eye(shape.scores),
        np.eye(shape.outputs),
        key=read[:, : shape.scores],
        value=read[:, shape.scores :],
        key_rows=Rows(source="context"),
    )
    return Network((_queries(shape), Attention((head,))), shape.inputs, 1, (None, shape.width), NAME)


def memory_network(shape: PromptShape, tokens: Array, construction: str, claims: Claims | None = None) -> Network:
    """The network whose constant keys and values are the prompt: what the frozen one computes, given it.

    ``construction`` names the proof to look for; ``claims`` are the head's.
    """
    shape.check(tokens.shape)
    keys, values = tokens[:, : shape.scores].copy(), tokens[:, shape.scores :].copy()
    head = Head(np.eye(shape.scores), np.eye(shape.outputs), memory_keys=keys, memory_values=values, claims=claims)
    return Network((_queries(shape), Attention((head,))), shape.inputs, 1, construction=construction)


def prompt_tokens(network: Network) -> Array:
    """The tokens (p, 2 d + k) of a network of linear maps and one head over constant keys.

    Products are made in extended precision and rounded once, so a network of small whole keys loses next to nothing;
    what it does lose is for a certificate of the tokens to say.
    """
    encode, head = _only_head(network)
    slope, offset = _composed(encode, network.features)
    query, keys = _wide(head.query), _wide(head.memory_keys)
    tilt, shift = slope @ query, offset @ query  # (d, r) and (1, r): the score is sum_r (x . tilt_r + shift_r) key_r
    offsets = np.zeros((len(keys), network.features), dtype=np.longdouble)
    for column, axis in enumerate(_axes(tilt)):
        offsets[:, axis] += shift[0, column] * keys[:, column]
    values = _wide(head.memory_values) @ _wide(head.output)
    return np.hstack([keys @ tilt.T, offsets, values]).astype(np.float64)


class AsPrompt(Construction[Any]):
    """A construction of one head, built with the keys and values that its prompt gives to the frozen head."""

    def __init__(self, inner: Construction[Any]) -> None:
        self.inner, self.name, self.fitted = inner, inner.name, inner.fitted
        self.function_class, self.rate, self.reference = inner.function_class, inner.rate, inner.reference

    def accepts(self, target: Target) -> str | None:
        """What the construction accepts."""
        return self.inner.accepts(target)

    def size(self, target: Target, tol: float, dtype: str) -> Any:
        """The construction's plan."""
        return self.inner.size(target, tol, dtype)

    def cost(self, target: Target, plan: Any) -> Cost:
        """A token an anchor."""
        anchors, shape = self.inner.cost(target, plan).anchors, prompt_shape(target)
        return Cost.of(anchors, anchors * shape.width + shape.width**2)

    def build(self, target: Target, plan: Any) -> Network:
        """The network of the prompt, with the claims of the head it was read from."""
        network = self.inner.build(target, plan)
        tokens = prompt_tokens(network)
        return memory_network(prompt_shape(target), tokens, network.construction, network.heads[0].claims)

    def bound(self, target: Target, plan: Any) -> dict[str, float]:
        """The construction's: in exact arithmetic the head is the same."""
        return self.inner.bound(target, plan)


def prompt_shape(target: Target) -> PromptShape:
    """The columns of a prompt for a target on a box of shape (d,)."""
    return PromptShape(target.domain.lower.size, target.outputs or 1)


def _queries(shape: PromptShape) -> Linear:
    """The map from x to (x, 1, .., 1)."""
    ones = np.zeros((1, shape.scores))
    ones[0, shape.inputs :] = 1.0
    return Linear((Term(np.eye(shape.inputs, shape.scores)),), ones)


def _only_head(network: Network) -> tuple[tuple[Linear, ...], Head]:
    """Linear maps of the only token, and the only head; anything else has no affine scores over constant keys."""
    *before, last = network.layers
    encode = tuple(layer for layer in before if isinstance(layer, Linear))
    plain = isinstance(last, Attention) and not last.residual and len(encode) == len(before) and network.tokens == 1
    if not isinstance(last, Attention) or not plain:
        raise RefusalError("A prompt is read from linear maps and one layer of attention", "other layers")
    if len(last.heads) != 1:
        raise RefusalError("A prompt spells out one head", f"{len(last.heads)} heads", "Use tensor_grid, say")
    head = last.heads[0]
    if head.key_rows is not None or head.query_rows.indices is not None:
        raise RefusalError("A prompt is read from constant keys", "a head whose keys are tokens")
    return encode, head


def _composed(encode: tuple[Linear, ...], inputs: int) -> tuple[Wide, Wide]:
    """Slope (d, m) and offset (1, m) of what the head's query map reads."""
    slope, offset = np.eye(inputs, dtype=np.longdouble), np.zeros((1, inputs), dtype=np.longdouble)
    for layer in encode:
        (term, *more) = layer.terms or (Term(),)
        if more or term.mix is not None or term.map is None or term.map.ndim != 2:
            raise RefusalError("A prompt is read from a network whose token passes one map at a time", "other maps")
        weights = _wide(term.map)
        slope, offset = slope @ weights, offset @ weights
        if layer.constant is not None:
            offset = offset + layer.constant
    return slope, offset


def _axes(tilt: Wide) -> list[int]:
    """For every column of scores, the axis whose offset it joins: the one it reads, else that of the column before."""
    found: list[int] = []
    for column in tilt.T:
        reads = np.flatnonzero(column)
        found.append(int(reads[0]) if len(reads) else found[-1] if found else 0)
    return found


def _wide(array: Array | None) -> Wide:
    return np.asarray(array, dtype=np.longdouble)
