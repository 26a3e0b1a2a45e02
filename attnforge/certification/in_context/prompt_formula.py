r"""Certificates of functions of a whole prompt: two graphs of registers, and a mean between them.

The network is read, layer by layer, as a graph at every token, a head of means, and a graph at the first token. Both
graphs are proved as graphs are (:mod:`attnforge.certification.graph.prove`), the first on the box of tokens and query.
If it is within $\epsilon$ of $\phi$ at every token, a run's mean over n tokens is within
$$ \epsilon + s_n\,(\sup|\phi| + \epsilon), \qquad s_n = \gamma_{n+1} + \gamma_3, $$
of the mean of $\phi$: the head's query is zero, so all scores are zero and all weights $e^0 = 1$; their sum n is exact,
and the sum of n values is rounded n - 1 times. These are the errors of the second graph's inputs. On the whole domain
at once its bound is linear in them, so that it is at most $a + b n$ for every n up to the largest, N, with $b$ the sum
of sensitivities times $\sup|\phi|\,s_N/N$: $s_n$ is convex.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from attnforge.certification.certificate import Certificate
from attnforge.certification.graph.layout import read_columns
from attnforge.certification.graph.prove import prove_graph
from attnforge.certification.in_context.certify import certificate_of
from attnforge.certification.statement import Proof, Report, Statement
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Linear, Network, Rows, Term, rounded
from attnforge.outward import Machine, Up, gamma, machine
from attnforge.targets import PromptFormula
from attnforge.targets.in_context.prompt_formula import FIRST, Between

REMEDY = "Rebuild the network"
EXACT = 0.5  # tokens times the roundoff: below it their number is one of the accumulation's numbers
ONE = "the exponential of zero is one"
LAYOUT = "A function of a prompt is a graph at every token, a head of means and a graph at the first token"


def certify_prompt_formula(
    network: Network,
    target: PromptFormula,
    dtype: str,
    effort: Effort = NORMAL,
    progress: Report | None = None,
    tokens: int | None = None,
) -> Certificate:
    """A bound of |network - target| for all prompts of up to so many tokens in the box that meet the conditions."""
    model, most = machine(dtype), tokens or target.tokens
    target.check_defined()
    first, second = read(rounded(network, dtype), target)
    read_columns(first, target.inner)  # the second half reads its registers by columns: none of them is a direction
    inner = prove_graph(Statement(first, target.inner, target.box, model, effort, progress))
    outer = target.outer(_errors(target, inner, most, model))
    proof = prove_graph(Statement(second, outer, outer.domain, model, effort, progress))
    reach = f"prompts of at most {most:,} tokens in the box" + "".join(f", {text}" for text in target.stated)
    domain = tuple(zip(target.domain.lower.tolist(), target.domain.upper.tolist(), strict=True))
    said = (reach, *_growth(target, proof, most, model), ONE, *_said(inner, proof))
    found = certificate_of(network, target, dtype, proof.parts, said, domain)
    return replace(found, registers=proof.registers, kernels=("dense", "batched"))


def _said(*proofs: Proof) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for proof in proofs for text in proof.assumptions))


def _errors(target: PromptFormula, inner: Proof, tokens: int, model: Machine) -> list[tuple[float, float]]:
    """Of the means: in exact arithmetic what the first graph errs by, and by rounding what it and the sums do."""
    exact, made = inner.parts["composition"], Up.of(inner.parts["rounding"])
    sums, lost = _sums(tokens, model), SoftmaxArithmetic(model, tokens).lost
    found = []
    for ends in target.hulls:
        size = Up.of(max(map(abs, ends))) + made + exact
        found.append((exact, float(made + sums * size + lost(size))))
    return found


def _sums(tokens: int, model: Machine) -> Up:
    """What a mean of so many numbers is off by, relative to the largest.

    All scores are zero and weights 1, whose sum is exact: one sum is rounded, then the quotient, or first the weight.
    """
    if tokens * model.accumulation >= EXACT:
        raise RefusalError("Tokens are counted exactly", f"{tokens:,} in {model.name}", "Ask for fewer `tokens`")
    return Up.of(gamma(tokens + 1, model.accumulation)) + gamma(3, model.roundoff)


def _growth(target: PromptFormula, proof: Proof, most: int, model: Machine) -> tuple[str, ...]:
    """The bound as a function of n: what sums do to means is linear in their error, which is so in n."""
    if proof.linear is None:
        return ()
    whole, sensitivities = proof.linear
    sizes = [max(map(abs, ends)) for ends in target.hulls]
    rate = float(sum(map(math.prod, zip(sensitivities, sizes, strict=False))) * _sums(most, model)) / most
    return (f"of n tokens the bound is at most {whole - rate * most:.3g} + {rate:.3g} n",)


def read(run: Network, target: PromptFormula) -> tuple[Network, Network]:
    """The two graphs as networks of one token; anything else between them, or around, is refused."""
    means, query = len(target.means), len(target.query)
    at = [i for i, layer in enumerate(run.layers) if isinstance(layer, Attention) and _is_mean(layer)]
    if run.tokens is not None or run.context is not None or len(at) != 1 or not 1 < at[0] < len(run.layers) - 2:
        raise CertificateError(LAYOUT, "another network", REMEDY)
    *inner, out = run.layers[: at[0]]
    mean, encode, *others = run.layers[at[0] :]
    between, phi = Between(means, query), _map(out, None)
    features = run.features
    registers = 1 + features + sum(len(layer.heads) for layer in inner if isinstance(layer, Attention))
    if phi.shape != (registers, between.width):
        raise CertificateError(LAYOUT, f"a read-out of shape {phi.shape}", REMEDY)
    if not np.array_equal(phi, between.filled(phi[:, :means], features)):
        raise CertificateError("The query is kept, and the features of means are zero before", "others", REMEDY)
    _check_mean(mean, between)
    width = 1 + means + query + sum(len(layer.heads) for layer in others if isinstance(layer, Attention))
    constant = np.eye(1, width)
    if not np.array_equal(_map(encode, constant), between.moved(width)):
        raise CertificateError("The second graph reads the means and the query", "others", REMEDY)
    if not all(_asks_first(layer) for layer in others if isinstance(layer, Attention)):
        raise CertificateError("The second graph is computed by the first token", "others", REMEDY)
    read_out = Linear((Term(phi[:, :means]),))
    begin = Linear((Term(np.eye(means + query, width, 1)),), constant)
    second = (begin, *(layer.asked_by(Rows()) if isinstance(layer, Attention) else layer for layer in others))
    return Network((*inner, read_out), features, 1), Network(second, means + query, 1)


def _is_mean(layer: Attention) -> bool:
    return any(head.key_rows is not None and head.key_rows.kind != "own" for head in layer.heads)


def _map(layer: object, constant: np.ndarray | None) -> np.ndarray:
    """The one map of a linear layer with that constant."""
    plain = isinstance(layer, Linear) and len(layer.terms) == 1 and layer.terms[0].mix is None
    if not isinstance(layer, Linear) or not plain or layer.terms[0].map is None or layer.terms[0].map.ndim != 2:
        raise CertificateError(LAYOUT, "another linear layer", REMEDY)
    same = layer.constant is None if constant is None else np.array_equal(np.asarray(layer.constant), constant)
    if not same:
        raise CertificateError(LAYOUT, "another constant", REMEDY)
    return np.asarray(layer.terms[0].map)


def _check_mean(layer: object, between: Between) -> None:
    """A residual, and one head that takes means of all tokens: its query is zero, so that keys do not matter."""
    if not isinstance(layer, Attention) or not layer.residual or len(layer.heads) != 1:
        raise CertificateError(LAYOUT, "other heads beside the means", REMEDY)
    (head,) = layer.heads
    rows = head.key_rows is not None and head.key_rows.kind == "all" and head.key_rows.source == "state"
    alike = np.array_equal(np.asarray(head.value), between.read) and np.array_equal(head.output, between.written)
    if np.any(head.query) or head.memory_keys is not None or not rows or not alike or not _asks_first(layer):
        raise CertificateError("Means weigh all tokens alike, and are kept as they are", "another head", REMEDY)


def _asks_first(layer: Attention) -> bool:
    rows = [head.query_rows.indices for head in layer.heads]
    return all(each is not None and each.tolist() == [FIRST] for each in rows)
