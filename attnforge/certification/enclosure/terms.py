r"""Sums of terms of few inputs, and heads that read one term each: a proof for every term.

Heads are grouped by the inputs that reach their scores through weights other than zero; every summand of the formula
goes to the smallest group that reads all its inputs. With $e_g$ the heads of a group minus its summands, and any
constants $\kappa_g$,
$$ \Big|\sum_g e_g\Big| \le \sum_g \sup |e_g - \kappa_g| + \Big|\sum_g \kappa_g\Big| . $$
With $\kappa_g$ the middle of the range of $e_g$ this is an equality for groups of different inputs; for groups that
share inputs it is a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.expression.evaluate import evaluate
from attnforge.expression.simplify import plus
from attnforge.expression.tree import Constant, Node, variables
from attnforge.network import Attention, Head, Linear, Network, apply
from attnforge.targets import Box, Formula
from attnforge.targets.structure.summands import summands

Array = npt.NDArray[np.float64]
Inputs = tuple[int, ...]

POINTS = 2000  # at which the range of a term's error is measured, to place it around zero


@dataclass(frozen=True, eq=False)
class Term:
    """Heads of some inputs, the summands they stand for less a constant, and the box of these inputs."""

    inputs: Inputs
    network: Network
    target: Formula
    domain: Box
    constant: float


def terms_of(network: Network, target: Formula, domain: Box) -> list[Term] | None:
    """The network and the formula as sums of terms; None if they are one, or do not fit together."""
    encode, heads = read_heads(network)
    if not all(map(_is_one_map, encode)):
        return None
    reads = [_reads(encode, head) for head in heads]
    groups = sorted(set(reads), key=lambda inputs: (len(inputs), inputs))
    if len(groups) < 2 or () in groups:
        return None
    shares: dict[Inputs, list[Node]] = {group: [] for group in groups}
    for summand in summands(target.tree):
        needed = {target.names.index(name) for name in variables(summand)}
        home = next((group for group in groups if needed <= set(group)), None)
        if home is None:
            return None
        shares[home].append(summand)
    members = {group: [head for head, own in zip(heads, reads, strict=True) if own == group] for group in groups}
    return [_term(encode, group, members[group], shares[group], target, domain) for group in groups]


def _is_one_map(layer: Linear) -> bool:
    first = layer.terms[0].map
    return len(layer.terms) == 1 and first is not None and first.ndim == 2


def _reads(encode: tuple[Linear, ...], head: Head) -> Inputs:
    """The inputs that reach the scores, whether or not their effects cancel: those that matter to rounding."""
    paths = np.any(np.asarray(head.memory_keys) != 0, axis=0)
    for matrix in (head.query, *(np.asarray(layer.terms[0].map) for layer in reversed(encode))):
        paths = np.any((matrix != 0) & paths, axis=1)
    return tuple(np.flatnonzero(paths).tolist())


def _term(
    encode: tuple[Linear, ...], inputs: Inputs, heads: Sequence[Head], parts: list[Node], target: Formula, domain: Box
) -> Term:
    network = _restricted(encode, inputs, heads)
    names = tuple(target.names[i] for i in inputs)
    box = Box(domain.lower.ravel()[list(inputs)], domain.upper.ravel()[list(inputs)])
    tree = plus(*parts, Constant(0.0)) if parts else Constant(0.0)
    points = box.lower + (box.upper - box.lower) * np.random.default_rng(0).random((POINTS, len(inputs)))
    points = np.concatenate([points, box.lower[None], box.upper[None]])
    errors = apply(network, points[:, None])[:, 0, 0] - evaluate(tree, dict(zip(names, points.T, strict=True)))
    middle = float(errors.min() / 2 + errors.max() / 2)
    constant = middle if np.isfinite(middle) else 0.0
    return Term(inputs, network, Formula(plus(tree, Constant(constant)), box, names), box, constant)


def _restricted(encode: tuple[Linear, ...], inputs: Inputs, heads: Sequence[Head]) -> Network:
    """The heads as a network of these inputs alone: the others do not move their scores."""
    rows = list(inputs)
    if not encode:
        heads = [replace(head, query=head.query[rows]) for head in heads]
        return Network((Attention(tuple(heads)),), len(rows), 1)
    first = encode[0].terms[0]
    layer = replace(encode[0], terms=(replace(first, map=np.asarray(first.map)[rows]),))
    return Network((layer, *encode[1:], Attention(tuple(heads))), len(rows), 1)
