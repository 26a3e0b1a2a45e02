"""The rules of the prover, each a lemma about networks of some shape, and which of them speak about a statement.

A rule reads the numbers of a network, checks its hypotheses and gives named parts of a bound; where they do not hold it
raises, with the reason. None asks how a network was built or what it is called. The first that holds is taken: lemmas
about single heads come before enclosures, which come before what covers any stack of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from attnforge.certification.anchored import Problem, bound_anchored, problem_of
from attnforge.certification.by_cells import prove_stack
from attnforge.certification.cells import are_cells, bound_cells, looks_at
from attnforge.certification.composition import bound_relu_network
from attnforge.certification.enclosure.factors import shows_product
from attnforge.certification.enclosure.fitted import may_be_enclosed, prove_fitted
from attnforge.certification.enclosure.rows import prove_rows
from attnforge.certification.enclosure.several_inputs import ENCLOSED
from attnforge.certification.graph.layout import is_graph
from attnforge.certification.graph.prove import prove_graph
from attnforge.certification.in_context.head import bound_head
from attnforge.certification.neuron_directions import bound_turned
from attnforge.certification.read_out import has_read_out, prove_read_out
from attnforge.certification.retrieval import bound_retrieval
from attnforge.certification.statement import Proof, Statement
from attnforge.certification.three_keys import bound_gate
from attnforge.errors import AttnforgeError, CertificateError, OutOfTimeError, RefusalError, TargetError
from attnforge.network import Attention, Linear, Network, Softmax
from attnforge.network.apply import apply_layer
from attnforge.targets import AttentionHead, Formula, ReluNetwork, Table, TruncatedLinear
from attnforge.targets.formulas import Formulas

UNPROVED = "fitted values: the error between the points looked at is not bounded"
UNKNOWN = "nothing is known of the target's smoothness"

SAMPLES = 256  # points at which it is seen whether a head chooses or blends
DEPARTED = 2.0**12  # roundings of the largest number met: built weights, of thousands of keys, depart by no more
CLOSE = 0.05  # of a bound: what is charged to departures is not told more closely
PAIRS, HELD = 2**25, 2**20  # of such points and keys, at most, and at once
NOTHING = -700.0  # a logarithm of weights so far below the largest that they are none
CHOOSES = 0.85  # the largest weight, a linear form, from which on it does: scores of neighbours differ by 5 and more


@dataclass(frozen=True)
class Rule:
    """A proof, and whether it may speak about a statement at all; ``last`` ones only where no other came to an end.

    Of deep networks, where an ``only`` one speaks no other does.

    ``inputs`` is how many the network takes: one, or a second one that is attended to.
    """

    prove: Callable[[Statement], Proof]
    speaks_about: Callable[[Statement], bool]
    inputs: int = 1
    last: bool = False
    only: bool = False

    def covers(self, statement: Statement) -> bool:
        """Whether the network takes as many inputs, and the target is of the right kind."""
        return self.inputs == (1 if statement.run.context is None else 2) and self.speaks_about(statement)


def prove(statement: Statement) -> Proof:
    """The proof by the first rule whose hypotheses hold; ``sampled`` where nothing can be known, or nothing came out.

    Raises what the first rule that applies to this kind of target said against the network, if every rule did.
    """
    if nothing := _nothing_known(statement):
        return Proof({}, "sampled", (nothing,))
    against: list[AttnforgeError] = []
    unfinished: list[Proof] = []
    for rule in RULES:
        if not rule.covers(statement) or (rule.last and (unfinished or _is_beyond(against))):
            continue
        try:
            proof = rule.prove(statement)
        except OutOfTimeError:
            raise
        except RefusalError as reason:
            against.append(reason)
            if _is_coarse(statement):
                break
            continue
        except CertificateError as reason:
            against.append(reason)
            if rule.only and _is_deep(statement):
                break
            continue
        if np.isfinite(proof.bound):
            return proof
        unfinished.append(proof)
    if unfinished:
        ended = [f"; the proof ended at {proof.limit}" for proof in unfinished if proof.limit is not None]
        return Proof({}, "sampled", (UNPROVED + "".join(ended[:1]),))
    raise _strongest(against, statement)


def _is_coarse(statement: Statement) -> bool:
    """Whether a lemma refuses because of rounding: in float64 it does not, unless inputs hardly differ between keys."""
    lower, upper = statement.domain.lower, statement.domain.upper
    keys = max((head.memory_size for head in statement.run.heads), default=0)
    rounding = DEPARTED * statement.machine.roundoff * np.maximum(np.abs(lower), np.abs(upper))
    return statement.machine.name != "float64" or bool(np.any(rounding * keys > upper - lower))


def _is_beyond(against: list[AttnforgeError]) -> bool:
    """Whether a dtype or an effort does not allow what the network does: no other way of looking at it helps."""
    return any(isinstance(reason, RefusalError) for reason in against)


def _nothing_known(statement: Statement) -> str | None:
    """Why no bound can be had of this target, if so."""
    target = statement.target
    if isinstance(target, Table):
        return UNPROVED
    known = isinstance(target, Formula | Formulas | TruncatedLinear | ReluNetwork | AttentionHead)
    return None if known or target.lipschitz() is not None else UNKNOWN


def _strongest(against: list[AttnforgeError], statement: Statement) -> AttnforgeError:
    """What a dtype cannot do says more than which shape a network does not have."""
    if not against:
        return CertificateError("A rule must speak about the target", statement.target.describe(), "Measure it instead")
    return next((reason for reason in against if isinstance(reason, RefusalError)), against[0])


def _parts(bound: Callable[..., dict[str, float]], *, searches: bool = False) -> Callable[[Statement], Proof]:
    """A proof from a function of network, target, domain, machine and, where it searches, effort."""

    def proved(statement: Statement) -> Proof:
        more = (statement.effort,) if searches else ()
        return Proof(bound(statement.run, statement.target, statement.domain, statement.machine, *more))

    return proved


def _regular(
    proved: Callable[[Statement], Proof], looks: Callable[[Network, Formula], bool]
) -> Callable[[Statement], Proof]:
    """A proof that rests on the target's Lipschitz constant, unless it looks at the formula itself."""

    def rested(statement: Statement) -> Proof:
        target = statement.target
        if isinstance(target, Formula) and looks(statement.run, target):
            return replace(proved(statement), assumptions=(ENCLOSED,))
        known = target.lipschitz()
        if known is None:
            raise CertificateError("This bound rests on a Lipschitz constant", "none", "Pass lipschitz=")
        if known.proved:
            return proved(statement)
        given = f"the target is Lipschitz with constant {known.constant:g} in the {known.norm} norm, as given"
        return replace(proved(statement), status="conditional", assumptions=(given,))

    return rested


def _truncated(statement: Statement) -> Proof:
    """One truncated linear function, by a gate or by rows of anchors; by enclosure, too, where the weights depart.

    A lemma charges departures at their worst, as rounding: where they are more than a dtype makes of built weights, the
    smaller of both bounds is stated.
    """
    problem = problem_of(statement.run, statement.target, statement.domain, statement.machine)
    gate = any(head.key_rows is not None and head.key_rows.kind == "own" for head in problem.heads)
    proof = Proof(bound_gate(problem)) if gate else _anchored(problem)
    if proof.parts["rounding"] <= max(DEPARTED * statement.machine.roundoff * problem.size, CLOSE * proof.bound):
        return proof
    try:
        return min(proof, prove_rows(statement), key=lambda each: each.bound)
    except (CertificateError, RefusalError):
        return proof


def _anchored(problem: Problem) -> Proof:
    """Rows of anchors; or a gate whose keys are all tokens."""
    try:
        return Proof(bound_anchored(problem))
    except CertificateError as reason:
        try:
            return Proof(bound_gate(problem))
        except CertificateError:
            raise reason from None


def _rectified(statement: Statement) -> Proof:
    """A ReLU network, or the one that a piecewise affine formula is."""
    target = statement.target
    exact = target.rectified() if isinstance(target, Formula) else target
    try:
        return Proof(bound_relu_network(statement.run, exact, statement.domain, statement.machine))
    except CertificateError as reason:
        try:
            return Proof(bound_turned(statement.run, exact, statement.domain, statement.machine))
        except CertificateError:
            raise reason from None


def _enclosed(statement: Statement) -> Proof:
    """Heads over constant keys against a formula: along a line, term by term, or on boxes."""
    target = statement.target
    if not may_be_enclosed(target):
        return Proof({"fit": np.inf})
    return replace(prove_fitted(statement), assumptions=() if statement.domain.lower.size == 1 else (ENCLOSED,))


def _stacked(statement: Statement) -> Proof:
    return replace(prove_stack(statement), assumptions=(ENCLOSED,))


def _is(*kinds: type) -> Callable[[Statement], bool]:
    return lambda statement: isinstance(statement.target, kinds)


def _is_truncated(statement: Statement) -> bool:
    return _has(statement.target.truncated_form)


def _is_rectified(statement: Statement) -> bool:
    target = statement.target
    return isinstance(target, ReluNetwork) or (isinstance(target, Formula) and _has(target.rectified))


def _has(form: Callable[[], object]) -> bool:
    try:
        form()
    except TargetError:
        return False
    return True


def _softmaxes(network: Network) -> Iterator[type]:
    return (type(layer) for layer in network.layers if not isinstance(layer, Linear))


def _is_tail(statement: Statement) -> bool:
    return Softmax in _softmaxes(statement.run)


def _is_deep(statement: Statement) -> bool:
    return list(_softmaxes(statement.run)).count(Attention) > 1


def _has_one_layer(statement: Statement) -> bool:
    return not _is_deep(statement) and not _is_tail(statement)


def _is_soft(statement: Statement) -> bool:
    """A formula whose head blends its keys: an expansion tells more than looking at who is chosen."""
    return isinstance(statement.target, Formula) and not chooses(
        statement.run, statement.domain.lower, statement.domain.upper
    )


def _is_mixed(statement: Statement) -> bool:
    """Whether the head is one over cells whose keys do not show, column by column, which axis they follow."""
    run, target = statement.run, statement.target
    keys = run.heads[0].memory_keys if len(run.heads) == 1 else None
    several = statement.domain.lower.size > 1 and keys is not None and not shows_product(keys)
    return several and are_cells(run, target)


def is_expanded(statement: Statement) -> bool:
    """Whether the proof is likely to be an expansion on cells, which may take long."""
    return _is_soft(statement) and not (_is_truncated(statement) or _is_rectified(statement))


def chooses(network: Network, lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether the only head chooses one of its constant keys at most points of the box, rather than blending some."""
    head = network.heads[0] if len(network.heads) == 1 else None
    if head is None or head.memory_keys is None or network.tokens != 1:
        return False
    count = min(SAMPLES, math.ceil(PAIRS / head.memory_size))
    points = np.random.default_rng(0).uniform(lower, upper, size=(count, *np.shape(lower))).reshape(count, 1, -1)
    for layer in network.layers:
        if isinstance(layer, Attention):
            break
        points = apply_layer(layer, points)
    queries, keys = points[:, 0] @ head.query, head.memory_keys
    largest = [_largest_weights(part @ keys.T) for part in np.array_split(queries, max(1, count * len(keys) // HELD))]
    some = queries @ keys[np.unique(np.linspace(0, len(keys) - 1, SAMPLES).astype(np.int64))].T
    several = points.shape[-1] > 1 and bool(np.isfinite(some).all())
    forms = int(np.linalg.matrix_rank(some - some.mean(axis=0))) if several else 1
    return bool(np.mean(np.concatenate(largest) ** (1 / max(forms, 1))) > CHOOSES)


def _largest_weights(scores: np.ndarray) -> np.ndarray:
    """Of softmaxes; what is far below is not told apart from nothing, which exp would take long for."""
    behind = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(1 / np.exp(np.maximum(behind, NOTHING)).sum(axis=1))


_CELLS = _regular(_parts(bound_cells, searches=True), looks_at)

RULES = (
    Rule(_parts(bound_head), _is(AttentionHead)),
    Rule(prove_graph, lambda statement: is_graph(statement.run), only=True),
    Rule(_truncated, _is_truncated),
    Rule(_rectified, _is_rectified),
    Rule(_regular(_parts(bound_retrieval), lambda *_: False), lambda statement: not _has_one_layer(statement)),
    Rule(_CELLS, lambda _: True, inputs=2),
    Rule(_CELLS, lambda statement: _has_one_layer(statement) and (not _is_soft(statement) or _is_mixed(statement))),
    Rule(_enclosed, _is_soft),
    Rule(_CELLS, _is_soft, last=True),
    Rule(lambda statement: prove_read_out(statement, prove), lambda statement: has_read_out(statement.run)),
    Rule(prove_rows, _is(Formula, TruncatedLinear)),
    Rule(_stacked, _is(Formula, TruncatedLinear), last=True),
)
"""In the order in which they are tried."""
