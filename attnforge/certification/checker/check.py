"""The verdict on a stored model: is its certificate about what is stored, and is its bound true?

Nothing here knows how a network was built. The certificate must be about the stored network, target, domain and dtype;
then the bound is proved again, cell by cell, from the weights and the target alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from attnforge.certification.certificate import Certificate, arithmetic
from attnforge.certification.checker.agreement import disagreements
from attnforge.certification.checker.graph import compare_claims, refute_claims
from attnforge.certification.checker.head import error_on_sequences, largest_gap
from attnforge.certification.checker.in_context import OfExamples, assumptions_of, drift, largest_error
from attnforge.certification.checker.layout import is_graph
from attnforge.certification.checker.listed import at_listed_points, attained, formulas_at
from attnforge.certification.checker.questions import BeyondReachError, questions
from attnforge.certification.checker.relu import compare
from attnforge.certification.checker.search import Outcome, answer
from attnforge.certification.checker.sums import compare_sums
from attnforge.display import Card, Displayed
from attnforge.effort import NORMAL, Effort, time_is_up
from attnforge.errors import AttnforgeError, CertificateError, OutOfTimeError, TargetError
from attnforge.network import Network, output_shape, rounded
from attnforge.outward import machine
from attnforge.targets import (
    AttentionHead,
    Formula,
    Formulas,
    Iteration,
    KernelAverage,
    PromptFormula,
    ReluNetwork,
    Table,
    Target,
    TruncatedLinear,
)

Report = Callable[[float], None]
Provable = Formula | Formulas | TruncatedLinear | ReluNetwork | Iteration | KernelAverage | AttentionHead

FEW = 2  # inputs on which cells of all of them are an alternative to registers one by one


@dataclass(frozen=True)
class Verdict(Displayed):
    """What the checker says of a model.

    ``confirmed``: the bound was proved again; ``rejected``: ``what`` does not fit, or the bound is not true;
    ``unprovable``: intact, but the file does not hold what a proof needs; ``undecided``: not settled within the limit.
    ``reason`` says it in words, ``outcome`` what was looked at.
    """

    verdict: Literal["confirmed", "rejected", "unprovable", "undecided"]
    reason: str
    what: str | None = None
    outcome: Outcome | None = None

    def facts(self) -> dict[str, str]:
        """What was looked at, in words."""
        if self.outcome is None:
            return {}
        met = {"largest error met": f"{self.outcome.seen:.6g}"}
        if not self.outcome.cells:
            return {"recomputed bound": f"{self.outcome.reached:.6g}"} | met
        return {"cells": f"{self.outcome.cells:,}", "largest bound of a cell": f"{self.outcome.reached:.6g}"} | met

    def _card(self) -> Card:
        return Card("Independent check", self.verdict, self.reason, self.facts())


def check(
    network: Network,
    target: Target,
    certificate: Certificate | None,
    dtype: str,
    effort: Effort = NORMAL,
    progress: Report = lambda _: None,
) -> Verdict:
    """Compare the certificate with what is stored, then prove its bound again; ``progress`` is told the fraction done.

    It ends undecided at the effort's cells, or when the time allowed is up.
    """
    if certificate is None:
        return Verdict("unprovable", "intact; without a data_bound there is no certificate for all prompts")
    for what in disagreements(network, target, certificate, dtype):
        return Verdict("rejected", f"the certificate is about another {what}", what)
    if not isinstance(target, Provable | Table):
        known = isinstance(target, PromptFormula)
        lacks = "the checker does not read functions of a prompt" if known else "the file does not hold the target"
        return Verdict("unprovable", f"intact, not re-provable: {lacks} ({target.describe()})")
    if certificate.norm != "sup":
        return Verdict("unprovable", f"intact, but the certificate is about another norm: {certificate.norm!r:.20}")
    bound = certificate.bound
    if bound is not None and (left_out := _left_out(target, certificate, dtype)):
        return Verdict("rejected", f"the certificate leaves out an assumption: {left_out}", "assumptions")
    try:
        model = rounded(network, dtype)
        if isinstance(target, OfExamples):
            return _check_examples(model, target, certificate, dtype, progress)
        _check_shapes(model, target)
        if isinstance(target, Table):
            return _check_table(model, target, certificate, dtype, effort, progress)
        if bound is None:
            return Verdict("unprovable", "intact, but the certificate states no bound")
        if isinstance(target, AttentionHead):
            return _check_head(model, target, bound, dtype)
        return _judgement(_prove(model, target, bound, dtype, effort, progress), bound)
    except (BeyondReachError, OutOfTimeError) as error:
        return Verdict("undecided", str(error).strip())
    except AttnforgeError as error:
        return Verdict("rejected", f"no bound can be proved: {str(error).strip()}", "network")


def _left_out(target: Target, certificate: Certificate, dtype: str) -> str:
    """What every bound of this target assumes, and the certificate does not say."""
    needed = (arithmetic(dtype), target.extension or arithmetic(dtype))
    return next((each for each in needed if each not in certificate.assumptions), "")


def _check_shapes(network: Network, target: Target) -> None:
    """Raise unless rows and features that go in and come out are the target's: a function's inputs are one row."""
    (rows, width), outputs = output_shape(network), target.outputs or 1
    if width != outputs:
        raise CertificateError(f"The network must write the target's {outputs} outputs", f"{width} features")
    *fixed, features = (1, *target.domain.shape) if target.layout == "function" else target.domain.shape
    right = network.features == features and (not fixed or network.tokens in (None, *fixed))
    if not right or network.context is not None or rows != network.tokens:
        got = f"{network.tokens} rows of {network.features} features, and {rows} rows out"
        raise CertificateError(f"The network must read and write {fixed or 'any'} rows, of {features} features", got)


def _check_examples(
    model: Network, target: OfExamples, certificate: Certificate, dtype: str, progress: Report
) -> Verdict:
    """The error for every prompt of the data box; on a few prompts, where its bound is too large."""
    if certificate.bound is None:
        return Verdict("unprovable", "intact, but the certificate states no bound")
    for left_out in assumptions_of(target) - set(certificate.assumptions):
        return Verdict("rejected", f"the certificate leaves out an assumption: {left_out}", "assumptions")
    what = f"the drift of {target.steps:,} steps" if isinstance(target, Iteration) else "the error"
    proof, seen = partial(drift, model, target, dtype, progress), partial(largest_error, model, target, dtype)
    return _recomputed(certificate.bound, proof, seen, ("prompts", what, "the prompt of seed {}"))


def _check_head(model: Network, target: AttentionHead, bound: float, dtype: str) -> Verdict:
    """The error for every sequence of the box; a few sequences where that is too large."""
    proof, seen = partial(largest_gap, model, target, dtype), partial(error_on_sequences, model, target, dtype)
    return _recomputed(bound, proof, seen, ("sequences", "the error", "one of a few sequences"))


def _recomputed(
    bound: float, proof: Callable[[], float], seen: Callable[[], tuple[float, int]], words: tuple[str, str, str]
) -> Verdict:
    """A bound that is computed again at once, and errors seen where that does not do."""
    (every, what, where), reached = words, math.inf
    try:
        reached = proof()
        reason = f"the bound {bound:.6g} was not reached: it is at most {reached:.6g}; certify it again"
    except BeyondReachError as error:
        reason = str(error).strip()
    if reached <= bound:
        reason = f"the bound {bound:.6g} holds for all {every}: {what} is at most {reached:.6g}"
        return Verdict("confirmed", reason, None, Outcome("confirmed", reached))
    largest, which = seen()
    if largest > bound or math.isnan(largest):
        reason = f"the bound {bound:.6g} is not true: the error is {largest:.6g} on {where.format(which)}"
        return Verdict("rejected", reason, "bound", Outcome("refuted", reached, largest))
    return Verdict("undecided", reason, None, Outcome("undecided", reached, largest))


def _check_table(
    model: Network, target: Table, certificate: Certificate, dtype: str, effort: Effort, progress: Report
) -> Verdict:
    """No bound between points; the error stated at these must be the largest, to half the digits, in whatever run."""
    if certificate.bound is not None:
        return Verdict("unprovable", "intact, but it states a bound where a table is silent: between its points")
    if certificate.estimate is None:
        return Verdict("unprovable", "intact, but the certificate states neither a bound nor an error")
    outcome, stated = at_listed_points(model, target, dtype, effort.cells, progress), certificate.estimate.error
    if outcome.seen > stated:
        return _judgement(replace(outcome, verdict="refuted"), stated)
    if outcome.verdict != "confirmed":
        return _judgement(replace(outcome, verdict="undecided"), stated)
    largest = float(abs(target.table_values).max())
    if not outcome.reached <= stated + math.sqrt(machine(dtype).roundoff) * largest:
        reason = f"the error {stated:.6g} stated is not certain: roundings of a run may make it {outcome.reached:.6g}"
        return Verdict("undecided", reason, None, replace(outcome, verdict="undecided"))
    what = f"at all {outcome.cells:,} listed points the error is at most {outcome.reached:.6g}"
    return Verdict("confirmed", f"{what}; nothing is said between", None, outcome)


def _judgement(outcome: Outcome, bound: float) -> Verdict:
    at = ", ".join(f"{x:.6g}" for x in outcome.at)
    match outcome.verdict:
        case "confirmed":
            reason = f"the bound {bound:.6g} holds on all of {outcome.cells:,} cells"
            return Verdict("confirmed", reason, None, outcome)
        case "refuted":
            reason = f"the bound {bound:.6g} is not true: the error is at least {outcome.seen:.6g} at {at}"
            return Verdict("rejected", reason, "bound", outcome)
    limit = "limit of time" if time_is_up() else "limit"
    reason = f"neither proved nor refuted on {outcome.cells:,} cells: raise the {limit}, or certify it again"
    return Verdict("undecided", reason, None, outcome)


def _prove(
    model: Network,
    target: Formula | Formulas | TruncatedLinear | ReluNetwork,
    bound: float,
    dtype: str,
    effort: Effort,
    progress: Report,
) -> Outcome:
    if isinstance(target, ReluNetwork):
        return compare(model, target, bound, dtype, progress)
    if isinstance(target, Formula | Formulas):
        looked = attained(model, target, dtype, bound, partial(formulas_at, target))
        if looked.seen > bound:
            with suppress(BeyondReachError):
                refute_claims(model, target, bound, dtype)
            return replace(looked, verdict="refuted", reached=0.0)
        if (claimed := _by_claims(model, target, bound, dtype, effort.cells, progress)) is not None:
            return replace(claimed, cells=looked.cells + claimed.cells)
        if (
            isinstance(target, Formula)
            and (side_by_side := _as_relu_network(model, target, bound, dtype, progress)) is not None
        ):
            return side_by_side
    try:
        asked = list(questions(model, target, bound, dtype))
    except BeyondReachError:
        if not isinstance(target, Formula):
            raise
        return compare_sums(model, target, bound, dtype, effort.cells, progress)
    found = Outcome()
    for done, question in enumerate(asked):
        if found.cells >= effort.cells:
            return found.and_(Outcome("undecided"))
        told = _part(progress, done, len(asked))
        found = found.and_(answer(question, effort.cells - found.cells, effort.processes, told))
        if found.verdict != "confirmed":
            break
    return found


def _by_claims(
    model: Network, target: Formula | Formulas, bound: float, dtype: str, cells: int, progress: Report
) -> Outcome | None:
    """Register by register, where heads claim what they write; None where cells of few inputs may do better."""
    if not is_graph(model):
        return None
    try:
        found = compare_claims(model, target, bound, dtype, cells, progress)
    except BeyondReachError:
        if model.features > FEW:
            raise
        return None
    return None if found.verdict == "undecided" and model.features <= FEW else found


def _as_relu_network(model: Network, target: Formula, bound: float, dtype: str, progress: Report) -> Outcome | None:
    """Side by side with the ReLU network that a formula is, where they have the same layers; None where that fails."""
    try:
        found = compare(model, target.rectified(), bound, dtype, progress)
    except (CertificateError, TargetError):
        return None
    return None if found.verdict == "undecided" else found


def _part(progress: Report, done: int, of: int) -> Report:
    """Who is told the progress of one part of several."""
    return lambda fraction: progress((done + fraction) / of)
