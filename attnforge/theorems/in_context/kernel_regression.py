r"""Kernel regression in one softmax head: the softmax *is* the Nadaraya-Watson average.

A query x attends to the examples with scores $s_i$ and reads their labels:
$$ \mathrm{head}(x) = \frac{\sum_i e^{s_i} y_i}{\sum_i e^{s_i}}, \qquad
   s_i = x \cdot x_i / h^2 \ \text{(softmax kernel)}, \qquad
   s_i = (x \cdot x_i - |x_i|^2/2) / h^2 \ \text{(Gaussian kernel)} . $$
The second is $-|x - x_i|^2/(2h^2)$ plus $|x|^2/(2h^2)$, which all examples share, so it cancels. Nothing is
approximated: network and closed form agree to rounding, for any number of examples with the same weights, and the
softmax subtracts the largest score, so that an x far from every example gets its nearest label, not 0/0.

Query tokens are the network's input, example tokens its second input: q queries meet n examples and nobody else. What
they hold is said in :mod:`attnforge.targets.in_context.kernel`. What is left is a relative error of about $u\,D^2/h^2$
for points at most D apart, u the roundoff.

**Causal.** Query i sees the examples before it. There is no mask in the representation, so positions make one: query i
brings $-M$ at the places j >= i, example j brings $e_j$, and the score becomes $s_{ij} - M[j \ge i]$. As long as
$|s_{ij}| \le M/8$, hidden examples weigh exactly 0 (their exponentials underflow) and the other scores are untouched
(0 is added). A constant key of score $-M/2$ and value 0 answers the first query, which sees nobody. Positions are
weights, n by n of them (the mask has full rank): the number of examples is fixed, and at most ``MOST_CAUSAL``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Attention, Head, Linear, Network, Rows, Term
from attnforge.targets.in_context.kernel import Kernel, KernelAverage

Array = npt.NDArray[np.float64]

HIDDEN = 1e30  # M: finite in float32 and bfloat16, and above the scores of points 1e14 bandwidths apart
MOST_CAUSAL = 2048  # examples: four n by n matrices of positions, 128 MiB, and a product of them, n^3


def network(kernel: Kernel, bandwidth: float, features: int, outputs: int = 1, examples: int | None = None) -> Network:
    """One head of query tokens over example tokens, the network's second input; any number of both if None.

    >>> net = network("softmax", 1.0, features=1)
    >>> net(np.array([[0.0]]), np.array([[3.0, 5.0], [-4.0, 6.0]]))
    array([[5.5]])
    """
    places = KernelAverage(kernel, bandwidth, features, outputs, examples)
    head = Head(
        query=np.diag(_sharpness(places)),
        output=np.eye(outputs),
        key=np.eye(places.width, places.scored),
        value=np.eye(places.width)[:, places.scored :],
        key_rows=Rows(source="context"),
    )
    return Network((*_with_constant(places), Attention((head,))), features, context=(examples, places.width))


def causal_network(kernel: Kernel, bandwidth: float, features: int, outputs: int, examples: int) -> Network:
    """The same head, where query i of n sees the examples before it; the first query gets 0."""
    if examples > MOST_CAUSAL:
        remedy = "Use fewer examples, or predict each query from its own prefix"
        raise RefusalError(f"Positions are n by n weights: at most {MOST_CAUSAL:,} examples", str(examples), remedy)
    places, n = KernelAverage(kernel, bandwidth, features, outputs, examples), examples
    r, start = places.scored + 1 + n, places.scored
    constant = np.zeros((n, r))
    constant[:, features : start + 1] = 1.0
    constant[:, start + 1 :] = np.triu(np.ones((n, n)))
    sharpness = np.concatenate([_sharpness(places), [-HIDDEN / 2], np.full(n, -HIDDEN)])
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


def _sharpness(places: KernelAverage) -> Array:
    """What the query's entries are multiplied by: (1, .., 1, -1/2) / h^2."""
    found = np.full(places.scored, 1.0 / places.bandwidth**2)
    found[places.features :] *= -0.5
    return found


def _with_constant(places: KernelAverage) -> tuple[Linear, ...]:
    """The query's constant 1, which meets |x_i|^2: its bias."""
    if places.kernel == "softmax":
        return ()
    return (Linear((Term(np.eye(places.features, places.scored)),), np.eye(places.scored)[-1:]),)
