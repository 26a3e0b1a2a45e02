r"""Numbers of one head, over the queries it was asked: how it spreads its weight, and how the dtype sees its scores.

For softmax weights w over N keys the entropy is $H = -\sum_k w_k \ln w_k$, between 0 (one key) and $\ln N$ (uniform);
$e^H$ is the number of keys the head effectively looks at. The *gap* is the difference of the two largest scores; on a
row of anchors of sharpness c it is $c(1 - 2\theta)$ at $\theta$ steps from an anchor, c/2 at the median, and larger
beyond the row; reported is its median, at most c/2 where c is known, and how often the rounding of the largest sum
$\sum |q_i k_i|$ goes into it (ulps). A query is *lost* when the key that wins in the dtype lies below the true winner
by more than the gap (and by at least one, a factor e): not a tie broken otherwise, but another key. *Noise* is the
spread of ln(weight in the dtype) - ln(weight) over the keys that matter.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.measurement.diagnosis.view import AnyArray, HeadView
from attnforge.outward import machine

Array = npt.NDArray[np.float64]

MATTERS = 0.01  # a weight from which on a key counts as one that the head looks at
LEAST_DEFICIT = 1.0  # logits: a factor e between weights; less is a tie broken otherwise


@dataclass(frozen=True)
class HeadStatistics:
    """What :mod:`attnforge.measurement.diagnosis.statistics` defines, for one head."""

    layer: int
    head: int
    keys: int
    queries: int
    entropy: float
    entropy_if_uniform: float
    largest_weight: float
    two_nearest: float
    score_range: float
    largest_score: float
    gap: float
    gap_in_ulps: float
    noise: float
    lost: float
    finite: bool
    sharpness: float | None = None

    @property
    def effective_keys(self) -> float:
        """exp(entropy): how many keys share the weight."""
        return float(np.exp(self.entropy))

    def to_dict(self) -> dict[str, Any]:
        """As plain data; numbers that are not finite become None."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def statistics(view: HeadView, sharpness: float | None = None) -> HeadStatistics:
    """Entropy, weights, scores, gaps and what the dtype makes of them.

    >>> row = np.array([[-1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])  # keys (L, L^2): scores 4 y L - 2 L^2
    >>> found = statistics(HeadView(0, 0, np.array([[0.0, -2.0]]), row))
    >>> found.keys, round(found.gap, 3), round(found.largest_weight, 3)
    (3, 2.0, 0.787)
    """
    parts = [_measured(view, rows) for rows in view.chunks()]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    finite = bool(np.isfinite(found["largest"]).all() and found["sane"].all())
    middle = _median(found["gap"])
    gap = middle if sharpness is None else min(middle, sharpness / 2)
    unit = 2 * machine(view.dtype).roundoff * float(found["magnitude"].max(initial=0.0))
    lost = found["deficit"] > max(LEAST_DEFICIT, gap)
    return HeadStatistics(
        layer=view.layer,
        head=view.head,
        keys=view.count,
        queries=len(view.queries),
        entropy=_median(found["entropy"]),
        entropy_if_uniform=_median(found["uniform"]),
        largest_weight=_median(found["first"]),
        two_nearest=_median(found["two"]),
        score_range=float(found["range"].max(initial=0.0)),
        largest_score=float(found["largest"].max(initial=0.0)),
        gap=gap,
        gap_in_ulps=gap / unit if unit > 0 else float("inf"),
        noise=float(np.quantile(found["noise"], 0.99)) if len(found["noise"]) else 0.0,
        lost=float(lost.mean()) if len(lost) else 0.0,
        finite=finite,
        sharpness=sharpness,
    )


def _measured(view: HeadView, rows: slice) -> dict[str, AnyArray]:
    """The numbers of each query of a chunk."""
    with np.errstate(invalid="ignore", over="ignore"):
        scores = view.scores(rows)
        allowed = np.isfinite(scores) if view.bias is None else view.bias[rows] > -np.inf
        top = scores.max(axis=1, keepdims=True)
        shifted = (scores - top).astype(np.float64)
        weights = np.exp(shifted)
        weights /= weights.sum(axis=1, keepdims=True)
        logs = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
        largest_two = -np.partition(-weights, 1, axis=1)[:, :2] if view.count > 1 else weights
        runner = np.partition(shifted, view.count - 2, axis=1)[:, view.count - 2] if view.count > 1 else -np.inf
        lowest = np.where(allowed, shifted, 0.0).min(axis=1)
        found: dict[str, AnyArray] = {
            "entropy": -(weights * logs).sum(axis=1),
            "uniform": np.log(np.maximum(allowed.sum(axis=1), 1)),
            "first": largest_two[:, 0],
            "two": largest_two.sum(axis=1),
            "gap": np.broadcast_to(np.abs(runner), (len(scores),)).astype(np.float64),
            "range": 0.0 - lowest,  # not -0 where all scores are equal
            "largest": np.abs(np.where(allowed, scores, 0.0)).max(axis=1).astype(np.float64),
            "magnitude": view.magnitudes(rows),
        }
        return found | _in_the_dtype(view, rows, shifted, weights, logs)


def _in_the_dtype(view: HeadView, rows: slice, shifted: Array, weights: Array, logs: Array) -> dict[str, AnyArray]:
    """How far below the true winner the dtype's winner lies, and how much the weights that matter are off."""
    if view.ran is None:
        nothing = np.zeros(len(shifted))
        return {"deficit": nothing, "noise": nothing, "sane": np.ones(len(shifted), dtype=bool)}
    ran = view.ran[rows]
    sane = np.asarray(np.isfinite(ran).all(axis=1))
    ran = np.where(np.isfinite(ran), ran, 0.0)
    deficit = -np.take_along_axis(shifted, ran.argmax(axis=1)[:, None], axis=1)[:, 0]
    matter = (weights >= MATTERS) & (ran >= MATTERS)
    off = np.log(np.where(matter, ran, 1.0)) - np.where(matter, logs, 0.0)
    spread = np.where(matter, off, -np.inf).max(axis=1) - np.where(matter, off, np.inf).min(axis=1)
    return {"deficit": np.where(sane, deficit, 0.0), "noise": np.where(matter.any(axis=1), spread, 0.0), "sane": sane}


def _median(values: AnyArray) -> float:
    kept = values[~np.isnan(values)]
    return float(np.median(kept)) if len(kept) else float("nan")


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
