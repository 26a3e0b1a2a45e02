r"""Kernel regression in one softmax head: the softmax *is* the Nadaraya-Watson average.

A query x attends to the examples with scores $s_i$ and reads their labels:
$$ \mathrm{head}(x) = \frac{\sum_i e^{s_i} y_i}{\sum_i e^{s_i}}, \qquad
   s_i = x \cdot x_i / h^2 \ \text{(softmax kernel)}, \qquad
   s_i = (x \cdot x_i - |x_i|^2/2) / h^2 \ \text{(Gaussian kernel)} . $$
The second is $-|x - x_i|^2/(2h^2)$ plus $|x|^2/(2h^2)$, which all examples share, so it cancels. Nothing is
approximated: network and closed form agree to rounding, for any number of examples with the same weights, and the
softmax subtracts the largest score, so that an x far from every example gets its nearest label, not 0/0.

**What the tokens hold.** Query tokens are the network's input, example tokens its second input: q queries meet n
examples and nobody else. A query token is x, an example token $(x_i, y_i)$: raw data. The Gaussian kernel needs
$|x_i|^2$, which is not linear in $x_i$: the prompt puts it into the token, $(x_i, |x_i|^2, y_i)$, a feature of the
inputs alone. The prompt also measures all points from the first example, which the kernel does not notice: otherwise
points near 2000 with h = 1 would lose six digits to cancellation. What is left is a relative error of about
$u\,D^2/h^2$ for points at most D apart, u the roundoff.

**Causal.** Query i sees the examples before it. There is no mask in the representation, so positions make one: query i
brings $-M$ at the places j >= i, example j brings $e_j$, and the score becomes $s_{ij} - M[j \ge i]$. As long as
$|s_{ij}| \le M/8$, hidden examples weigh exactly 0 (their exponentials underflow) and the other scores are untouched
(0 is added). A constant key of score $-M/2$ and value 0 answers the first query, which sees nobody. Positions are
weights, n by n of them (the mask has full rank): the number of examples is fixed, and at most ``MOST_CAUSAL``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Head, Linear, Network, Rows, Term
from attnforge.theorems.in_context.formats import zeros_for

Array = npt.NDArray[np.float64]
Kernel = Literal["gaussian", "softmax"]

HIDDEN = 1e30  # M: finite in float32 and bfloat16, and above the scores of points 1e14 bandwidths apart
MOST_CAUSAL = 2048  # examples: four n by n matrices of positions, 128 MiB, and a product of them, n^3


def check_kernel(kernel: str, bandwidth: float) -> None:
    """Raise unless the kernel is one of ours and the sharpness 1/h^2 is a positive number."""
    if kernel not in get_args(Kernel):
        raise TargetError("`kernel` must be 'gaussian' or 'softmax'", repr(kernel), "Use 'gaussian'")
    if not (np.isfinite(bandwidth) and 1e-150 <= bandwidth <= 1e150):
        raise TargetError("`bandwidth` must be a positive number between 1e-150 and 1e150", repr(bandwidth), "Use 1.0")


def tokens(kernel: Kernel, x: Any, y: Any, queries: Any) -> tuple[Any, Any]:
    """Query tokens (..., q, d) and example tokens (..., n, d + k), or d + 1 + k with the Gaussian kernel.

    From x (..., n, d), y (..., n, k) and queries (..., q, d), all NumPy or all torch.

    >>> tokens("gaussian", np.array([[2.0], [5.0]]), np.array([[7.0], [8.0]]), np.array([[4.0]]))
    (array([[2.]]), array([[0., 0., 7.], [3., 9., 8.]]))
    """
    if kernel == "gaussian":
        queries, x = queries - x[..., :1, :], x - x[..., :1, :]
    parts = [x, (x * x).sum(-1)[..., None], y] if kernel == "gaussian" else [x, y]
    found = zeros_for(x, y, (*x.shape[:-1], sum(part.shape[-1] for part in parts)))
    start = 0
    for part in parts:
        found[..., start : start + part.shape[-1]] = part
        start += part.shape[-1]
    return queries, found


def network(kernel: Kernel, bandwidth: float, features: int, outputs: int = 1, examples: int | None = None) -> Network:
    """One head of query tokens over example tokens, the network's second input; any number of both if None.

    >>> net = network("softmax", 1.0, features=1)
    >>> net(np.array([[0.0]]), np.array([[3.0, 5.0], [-4.0, 6.0]]))
    array([[5.5]])
    """
    places = _Places(kernel, features, outputs)
    context = (examples, places.width)
    head = Head(
        query=np.diag(places.sharpness(bandwidth)),
        output=np.eye(outputs),
        key=np.eye(places.width, places.scored),
        value=np.eye(places.width)[:, places.scored :],
        key_rows=Rows(source="context"),
    )
    return Network((*places.with_constant(), Attention((head,))), features, context=context)


def causal_network(kernel: Kernel, bandwidth: float, features: int, outputs: int, examples: int) -> Network:
    """The same head, where query i of n sees the examples before it; the first query gets 0."""
    if examples > MOST_CAUSAL:
        remedy = "Use fewer examples, or predict each query from its own prefix"
        raise RefusalError(f"Positions are n by n weights: at most {MOST_CAUSAL:,} examples", str(examples), remedy)
    places, n = _Places(kernel, features, outputs), examples
    r, start = places.scored + 1 + n, places.scored
    constant = np.zeros((n, r))
    constant[:, features : start + 1] = 1.0
    constant[:, start + 1 :] = np.triu(np.ones((n, n)))
    sharpness = np.concatenate([places.sharpness(bandwidth), [-HIDDEN / 2], np.full(n, -HIDDEN)])
    key = np.zeros((places.width + n, r))
    key[:start, :start], key[places.width :, start + 1 :] = np.eye(start), np.eye(n)
    sees_nobody = np.zeros((1, r))
    sees_nobody[0, start] = 1.0
    head = Head(
        query=np.diag(sharpness),
        output=np.eye(outputs),
        key=key,
        value=np.eye(places.width + n)[:, start : places.width],
        key_rows=Rows(source="context"),
        memory_keys=sees_nobody,
        memory_values=np.zeros((1, outputs)),
    )
    positions = np.concatenate([np.zeros((n, places.width)), np.eye(n)], axis=1)
    told = Linear((Term(np.eye(places.width, places.width + n)),), positions)
    layers = (Linear((Term(np.eye(features, r)),), constant), Attention((head,)))
    return Network(layers, features, n, (n, places.width), context_layers=(told,))


@dataclass(frozen=True)
class _Places:
    """What a token of an example holds: what scores read (x, and |x|^2 with the Gaussian kernel), then labels."""

    kernel: Kernel
    features: int
    outputs: int

    @property
    def scored(self) -> int:
        return self.features + (self.kernel == "gaussian")

    @property
    def width(self) -> int:
        return self.scored + self.outputs

    def sharpness(self, bandwidth: float) -> Array:
        """What the query's entries are multiplied by: (1, .., 1, -1/2) / h^2."""
        found = np.full(self.scored, 1.0 / bandwidth**2)
        found[self.features :] *= -0.5
        return found

    def with_constant(self) -> tuple[Linear, ...]:
        """The query's constant 1, which meets |x_i|^2: its bias."""
        if self.kernel == "softmax":
            return ()
        return (Linear((Term(np.eye(self.features, self.scored)),), np.eye(self.scored)[-1:]),)
