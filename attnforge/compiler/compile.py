"""``compile``: choose, size, build, certify. A table of contents; the mathematics is elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from attnforge.compiler.attempt import advice, attempt, finished
from attnforge.compiler.budget import Budget, budget, check_limit, positive
from attnforge.compiler.choice import candidates
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.finest import finest, rounded_up
from attnforge.compiler.polishing import polished
from attnforge.compiler.prompt_formula import compile_prompt, is_prompt_formula
from attnforge.compiler.targets import as_target
from attnforge.effort import UNFINISHED, Effort
from attnforge.errors import OutOfTimeError, RefusalError, TargetError, ToleranceError
from attnforge.outward import DType, dtype_name
from attnforge.progress import Progress
from attnforge.targets import Formula, Formulas, Target
from attnforge.targets.evaluation import Evaluation
from attnforge.theorems import registry
from attnforge.theorems.construction import Construction


def compile(
    target: Any,
    domain: Any = None,
    tol: float = 1e-3,
    *,
    construction: str = "auto",
    norm: str = "sup",
    dtype: DType = "float64",
    lipschitz: Any = None,
    max_anchors: int | None = None,
    max_bytes: int | None = None,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    cluster: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    require: str | None = None,
    polish: bool | Literal["positions"] = False,
    progress: Progress = False,
    given: Mapping[str, tuple[float | None, float | None]] | None = None,
    query: str | Sequence[str] | None = None,
    tokens: int | None = None,
) -> Compiled:
    """Compile a function into softmax-attention weights, off by at most ``tol``.

    The certificate says how that is known: ``proved``, ``conditional`` on what it assumes, or ``sampled``. Where
    tol is close to the rounding of float64, or at kinks of several inputs, the proved bound may exceed it while the
    measured error does not; ``reason`` then says so. In the other dtypes it never does: a tol that a dtype cannot have
    is refused, and the error's ``smallest_tol`` is one that the same call gets (None if none was found).

    Args:
        target: text such as ``"clamp(2*x + 0.3*y - 1, -1, 1)"`` or ``"[x + y, x*y]"``, a sympy expression, a function
            traced by ``af.formula``, a function of a prompt such as ``"tokens.mean(x*y)/tokens.mean(x^2)*q"`` (then
            called as ``net(prompt, query)``), a torch module, a fitted MLP of scikit-learn, the Path of an ONNX file, a
            callable, vectorised over leading axes ((N,) arrays for one input), or a table ``(points, values)`` or
            ``((axis, ..), values)``, which needs no domain.
        domain: ``{"x": (-1, 1), ...}``, ``[(-1, 1), ...]`` or an ``af.Box``; of shape (n, d) for sequence maps.
        tol: the largest error asked for, rounding in ``dtype`` included.
        construction: ``"auto"`` or a name from ``af.constructions``. Auto tries exact gadgets, graphs of
            registers, fitted heads (along linear forms, per term, on grids), then hard cells, and says why in the
            report.
        norm: ``"sup"``.
        dtype: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``, or torch's: what it runs in.
        lipschitz: of a callable, a number (sup norm) or ``af.Lipschitz``; without it nothing is proved, and the
            certificate is ``sampled``.
        max_anchors, max_bytes: refuse rather than build something larger.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: how hard to search and to prove.
        timeout: seconds after which the best so far is returned with its honest status (a proof that was cut off gives
            a larger bound, or none), or OutOfTimeError raised where nothing measured within tol.
        workers: processes that evaluate a callable and share long proofs; -1 for all cores. One core without it.
        cluster: the address of a Dask scheduler, ``"tcp://host:8786"``, whose workers do so instead.
        cache: a file that keeps the values of a callable, so that a run can be resumed.
        require: ``"proved"``, or ``"conditional"``: refuse what would be certified by less.
        polish: minimise the sup error of a fitted head over its values afterwards, or with ``"positions"`` over the
            anchors of a single row too; kept only if it measures better.
        progress: True shows what is being done and how far it is; a callable is told (fraction, text).
        given: of a function of a prompt, conditions on means, ``{"tokens.mean(x^2)": (0.1, None)}``: the certificate is
            about prompts that meet them.
        query: names of the query that stand inside of means only; those outside are the query's anyway.
        tokens: the largest number of them that is certified, a million unless given.

    >>> net = compile("clamp(2*x - 0.5, -1, 1)", {"x": (-1, 1)}, tol=1e-9)
    >>> net.certificate.bound <= 1e-9, float(net(0.5))
    (True, 0.5)
    """
    tol = positive(tol)
    if norm != "sup":
        raise ToleranceError("`norm` must be 'sup' for these constructions", repr(norm), "Leave it out")
    check_limit("max_anchors", max_anchors)
    if polish not in (True, False, "positions"):
        raise RefusalError("`polish` must be True, False or 'positions'", repr(polish)[:80], "Leave it out")
    runs_in, named = dtype_name(dtype), None if construction == "auto" else registry.construction(construction)
    of_prompt: dict[str, Any] = {"given": given, "query": query, "tokens": tokens}
    with budget(effort, timeout, workers, require, progress, cluster, max_bytes) as spent:
        if is_prompt_formula(target):
            if construction != "auto" or polish:
                got = f"construction={construction!r}, polish={polish!r}"
                raise TargetError("Functions of a prompt have one construction, without polish", got, "Leave them out")
            return compile_prompt(target, domain, tol, runs_in, spent, max_anchors=max_anchors, **of_prompt)
        for name in (name for name, value in of_prompt.items() if value is not None):
            got, remedy = f"`{name}`", "Leave it out, or take a mean: tokens.mean(x)"
            raise TargetError(f"`{name}` is of functions of a prompt", got, remedy)
        rows = spent.watch.rows if progress else None
        evaluation = Evaluation(workers=workers, cache=cache, progress=rows, cluster=cluster)
        wanted = as_target(target, domain, lipschitz, evaluation)
        if isinstance(wanted, Formula | Formulas):
            wanted.check_joined()
        compiled = _chosen(wanted, tol, runs_in, named, max_anchors, spent)
        return polished(compiled, polish == "positions", spent) if polish else compiled


def _chosen(
    wanted: Target,
    tol: float,
    dtype: str,
    named: Construction[Any] | None,
    max_anchors: int | None,
    given: Budget,
) -> Compiled:
    """The first construction that keeps its promise."""
    limits: dict[str, Any] = {"max_anchors": max_anchors, "budget": given}
    refusals: dict[str, str] = {}
    smallest: dict[str, float] = {}
    for candidate, plan in candidates(wanted, tol, dtype, refusals, named, given.watch):
        try:
            return attempt(candidate, plan, wanted, tol, dtype, **limits)
        except (RefusalError, ToleranceError) as error:
            if named is not None:
                raise
            refusals[candidate.name] = str(error)
            if error.smallest_tol is not None:
                smallest[candidate.name] = error.smallest_tol
    late = [name for name, reason in refusals.items() if UNFINISHED in reason]
    if late:
        raise _late(wanted, tol, late)
    given.watch.say(f"looking for the smallest tol in {dtype}")
    for candidate in _unsized(wanted, named, smallest):
        best = finest(candidate, wanted, dtype, **limits)
        if best is not None and best.tol <= tol and given.lacks(best.certificate) is None:
            return finished(best, candidate, wanted, tol, dtype, given)
        if best is not None:
            smallest[candidate.name] = rounded_up(best.tol)
    raise _refused(wanted, tol, dtype, refusals, smallest)


def _unsized(
    wanted: Target, named: Construction[Any] | None, smallest: Mapping[str, float]
) -> Iterator[Construction[Any]]:
    """Constructions of which it is still unknown what they could keep; a later stage only if no earlier one keeps any.

    ``smallest`` grows while this is looked at.
    """
    for stage in registry.STAGES if named is None else ((named,),):
        asked = [entry.accepts(wanted) if entry is named else entry.offers(wanted) for entry in stage]
        yield from (e for e, reason in zip(stage, asked, strict=True) if reason is None and e.name not in smallest)
        if any(entry.name in smallest for entry in stage):
            return


def _late(target: Target, tol: float, late: Sequence[str]) -> OutOfTimeError:
    """Nothing within tol when time was up: what was still to be done."""
    got, remedy = f"{', '.join(late)} unfinished", "Raise timeout or tol, lower effort, or name a construction"
    return OutOfTimeError(f"{target.describe()} must be compiled to tol={tol:g} within timeout", got, remedy)


def _refused(
    target: Target, tol: float, dtype: str, refusals: Mapping[str, str], smallest: Mapping[str, float]
) -> RefusalError:
    by_reason: dict[str, list[str]] = {}
    for name, reason in refusals.items():
        by_reason.setdefault(reason, []).append(name)
    least = min(smallest.values(), default=None)
    remedy = "" if least is None else f" {advice(least, tol, dtype)}."
    if len(by_reason) == 1:
        text = f"No construction takes {target.describe()}: {next(iter(by_reason))}{remedy}"
        return RefusalError(text, smallest_tol=least)
    lines = "".join(f"\n  {', '.join(names)}: {reason}" for reason, names in by_reason.items())
    which = (
        ""
        if least is None
        else f". The smallest tol found is {least:.2g}, by {min(smallest, key=smallest.__getitem__)}."
    )
    text = f"No construction reached tol={tol:g} in {dtype} for {target.describe()}{which}{remedy}"
    return RefusalError(f"{text}{' Reasons' if remedy else ''}:{lines}\n", smallest_tol=least)
