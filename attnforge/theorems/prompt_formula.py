r"""A function of a whole prompt: a graph at every token, means by one uniform head, a graph at the first token.

**Layout.** Tokens $(x_i, q)$, the query beside every one. A graph of registers (:mod:`.graph`) computes
$\phi_1, \dots, \phi_m$ at each. A head whose query is zero weighs all n tokens alike, and asked by the first token it
writes their means there, exactly but for rounding; a second graph computes G of the means and the query. The weights do
not depend on n.

**Error.** A mean errs by no more than the largest error of what it is taken of, and by the roundings of a sum of n
terms. So the error is what the second graph makes of inputs that are off by that much, and its own.
"""

from __future__ import annotations

import math

import numpy as np

from attnforge.errors import RefusalError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, Term
from attnforge.outward import machine
from attnforge.targets import PromptFormula
from attnforge.targets.in_context.prompt_formula import FIRST, Between
from attnforge.theorems.graph.construction import GraphConstruction, decomposed, graph_network
from attnforge.theorems.registers import one_hot

NAME = "prompt_formula"
PART = 0.1  # of the tolerance for both graphs: keys grow with its logarithm, and rounding needs the rest


def prompt_network(target: PromptFormula, tol: float, dtype: str, part: float = PART) -> Network:
    """The weights for a tolerance; both graphs together may take that part of it."""
    found, graphs = decomposed(target.outer()), GraphConstruction()
    plain = found.graph.compose([0.0] * (found.graph.inputs + len(found.steps)))
    sensitivities = found.graph.sensitivities(plain.slopes)[: len(target.means)]
    total = max(sum(sensitivities), float(np.finfo(np.float64).tiny))
    if not math.isfinite(total):
        raise RefusalError("The formula depends on every mean in a bounded way", target.describe()[:200], "Narrow it")
    inner = part / 2 * tol / total
    sums = SoftmaxArithmetic(machine(dtype), target.tokens).mean()
    off = [(inner, float(sums * max(map(abs, ends)))) for ends in target.ranges]
    first = graph_network(graphs.size(target.inner, inner, dtype), NAME)
    second = graph_network(graphs.size(target.outer(off), part / 2 * tol, dtype), NAME)
    return joined(first, second, len(target.means), len(target.query))


def joined(first: Network, second: Network, means: int, query: int) -> Network:
    """Both graphs around a head of means."""
    between = Between(means, query)
    *inner, out = first.layers
    _, *others = second.layers
    assert isinstance(out, Linear)
    width = second.features + 1 + len(second.heads)
    nothing, first_token = np.zeros((between.width, 1)), Rows.some([FIRST])
    head = Head(nothing, between.written, first_token, key=nothing, value=between.read, key_rows=Rows())
    layers: list[Layer] = [
        *inner,
        Linear((Term(between.filled(np.asarray(out.terms[0].map), first.features)),)),
        Attention((head,), residual=True),
        Linear((Term(between.moved(width)),), one_hot(0, width)[None]),
        *(layer.asked_by(first_token) if isinstance(layer, Attention) else layer for layer in others),
    ]
    return Network(tuple(layers), first.features, None, construction=NAME)
