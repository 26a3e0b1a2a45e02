r"""A last map behind the only layer of attention, taken into the outputs of its heads.

Let $a_h$ be the numbers that a head of the run computes before its output map $O_h$; the run is $\sum_h a_h O_h R$,
rounded. A network without the last map, whose heads are the same but for outputs $O_h' \approx O_h R$, has runs with
the same $a_h$. So what is proved of that network is true of this one up to
$$ \sum_h |a_h|\,|O_h R - O_h'| $$
and what sums and products of either run round. Heads that claim to be distractors are left out of it, $O_h' = 0$: what
they write is charged, up to the largest of their values, times what the last map reads of it. One that claims it and
matters is charged for all that it can do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.statement import Proof, Statement
from attnforge.certification.stream import Stream, is_distractor, mean_sizes, plain_map
from attnforge.certification.tokens import Tokens, linear, project, whole_input
from attnforge.errors import CertificateError
from attnforge.kernel.rounding import count_roundings, gammas
from attnforge.network import Attention, Head, Layer, Linear, Network
from attnforge.outward import Balls, Machine, Up, add_up, round_to

Array = npt.NDArray[np.float64]

LAYERS = "A read-out is a map of features, without a constant, behind the only layer of attention, without residual"


def has_read_out(network: Network) -> bool:
    """Whether a linear map follows the only layer of attention, which linear maps precede."""
    *before, attention, last = (None, *network.layers) if len(network.layers) > 1 else (None, None, None)
    plain = all(isinstance(layer, Linear) for layer in before[1:]) and isinstance(last, Linear)
    return plain and isinstance(attention, Attention) and network.context is None


def prove_read_out(statement: Statement, prove: Callable[[Statement], Proof]) -> Proof:
    """What ``prove`` finds of the network without its last map, and what that leaves out, as ``rounding``."""
    run, machine = statement.run, statement.machine
    *before, attention, last = run.layers
    weights, constant = plain_map(last)
    if not isinstance(attention, Attention) or attention.residual or np.any(constant):
        raise CertificateError(LAYERS, "another layer", "Rebuild the network")
    sizes = _sizes(attention, before, statement)
    heads = [head for head in attention.heads if not is_distractor(head)]
    if not heads:
        raise CertificateError("Some head counts", "distractors alone", "Rebuild the network")
    outputs = [_folded(head, weights, machine) for head in heads]
    lean = [replace(head, output=output) for head, output in zip(heads, outputs, strict=True)]
    proof = prove(replace(statement, run=replace(run, layers=(*before, Attention(tuple(lean))))))
    kept = iter(outputs)
    folded = np.vstack(
        [
            np.zeros((len(head.output), weights.shape[1])) if is_distractor(head) else next(kept)
            for head in attention.heads
        ]
    )
    off = _left_out(np.vstack([head.output for head in attention.heads]), folded, weights, sizes, machine)
    parts = {**proof.parts, "rounding": add_up(off, proof.parts.get("rounding", 0.0))}
    return replace(proof, parts=parts, registers=(), linear=None)


def _folded(head: Head, weights: Array, machine: Machine) -> Array:
    """O R, as the dtype has it."""
    return np.asarray(round_to(head.output @ weights, machine.name), dtype=np.float64)


def _sizes(attention: Attention, before: Sequence[Layer], statement: Statement) -> Up:
    """Of all numbers (v in all) that heads compute before their output maps, as the run has them."""
    box, run, machine = statement.domain, statement.run, statement.machine
    lower, upper = (end.reshape(-1, run.features) for end in (box.lower, box.upper))
    rows = whole_input(lower, upper, machine)
    for layer in before:
        assert isinstance(layer, Linear)
        rows = linear(layer, rows, machine)
    return Up(np.concatenate([_mean(head, rows, machine).values for head in attention.heads]))


def _mean(head: Head, rows: Tokens, machine: Machine) -> Up:
    value, keys = Up.zeros(len(head.output)), head.memory_size
    if head.query_rows.indices is not None:
        raise CertificateError("Heads before a read-out are asked by all tokens", "by some", "Rebuild the network")
    if head.key_rows is not None and head.value is not None:
        if head.key_rows.kind != "own":
            raise CertificateError("Heads before a read-out read constants and their own token", head.key_rows.kind)
        value, keys = Up(project(rows, head.value, machine).magnitude().max(axis=0)), keys + 1
    return mean_sizes(head, value, keys, machine)


def _left_out(outputs: Array, folded: Array, weights: Array, sizes: Up, machine: Machine) -> float:
    """How far runs with the same numbers before outputs may be apart, at the output where it is most."""

    def of(each: Array) -> Up:
        return (sizes[None] @ Up.of(each))[0]

    nothing = Stream(Balls.exact(np.zeros(outputs.shape)), Up.zeros(outputs.shape[1]), machine)
    written = nothing.written(np.arange(len(outputs)), outputs, of)
    read, off = written.read(weights, of)
    apart = of(Up.of(Balls.exact(read) - Balls.exact(folded)).values)
    roundings = count_roundings(folded) + np.any(folded, axis=0)
    lean = of(folded) * Up.of(gammas(roundings, machine.roundoff)) + Up.of(roundings) * machine.underflow
    return float((off + apart + lean).most())
