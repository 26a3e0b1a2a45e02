"""Generations of climbers: where they start, how long they climb, and which boxes are left to them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.measurement.ascent import Climbers, Slope, climb, starting
from attnforge.measurement.judge import Judge, Judged
from attnforge.measurement.near_anchors import near_anchors
from attnforge.measurement.points import random_points
from attnforge.measurement.pruning import Bounds, cut, points_inside, whole
from attnforge.measurement.slopes import network_gradient, target_gradient
from attnforge.network import Network

Array = npt.NDArray[np.float64]

CLIMBERS = 48  # of a generation
CANDIDATES = 8  # points looked at for each of them; the worst become starts
ROUNDS = 6  # of climbing, before the lower half gives up; then again, until few are left
FEW = 3
AGAIN = 8  # highest places so far, from which the next generation starts as well
APART = 0.01  # of the sides, that these are apart: one top in several places is one
MOVED = (1.0, 6.0)  # powers of ten by which these starts are moved, as parts of the sides
FINAL = (2.0, 7.0)  # and those of the last steps: down to where only rounding differs
CUTS, MOST_BOXES = 3, 20_000  # boxes cut in a generation for each of its climbers, and held in all
CUTTING = 0.5  # of the time, at most
PART = 1 / 40  # of the seconds, that no single batch should take
CLIMBED = 0.85  # of the budget goes before the last steps
MET = 1 + 1e-5  # a proved bound this near to the error found leaves nothing to look for


class Generations:
    """Climbers, generation after generation, in a tree of boxes where bounds on them are known."""

    def __init__(
        self,
        judge: Judge,
        network: Network,
        tokens: int | None,
        dtype: str,
        bounds: Bounds | None,
        rng: np.random.Generator,
    ) -> None:
        self.judge, self.network, self.tokens, self.bounds, self.rng = judge, network, tokens, bounds, rng
        by_target, cost = target_gradient(judge.target, judge.box, rng)
        self.slope = Slope(network_gradient(network, judge.target, dtype), by_target, cost)
        self.boxes = None if bounds is None else whole(judge.box, bounds)
        self.starts, self.cuts, self.cutting = 0, 1, 0.0
        self.elite = judge(judge.at[None])

    @property
    def met(self) -> bool:
        """Whether the proved bounds leave next to nothing above the largest error found."""
        return self.boxes is not None and bool(self.boxes.bound.max() <= MET * self.judge.error)

    @property
    def worthwhile(self) -> bool:
        """Whether a climber can go one more round, and something larger may be found."""
        return not self.met and self.judge.fraction < CLIMBED and self.judge.left > self.slope.round

    def next(self, climbers: int) -> None:
        """Cut boxes, look for starts, climb, and let the lower half give up until few are left."""
        # Half of what is left, at most, so that there is a next generation which knows more.
        count = max(1, min(climbers, self.judge.left // (4 * ROUNDS * self.slope.round)))
        self._cut(CUTS * count)
        points = self._candidates(count)[: max(1, self.judge.left - self.slope.round)]
        group = starting(self.judge(points).worst(count), self.rng)
        self.starts += len(group.here)
        while self.judge.left >= self.slope.round:
            group = self._climbed(group)
            if len(group.here) <= FEW:
                break
            group = group.worst(len(group.here) // 2)
        self._keep(group.here)

    def finish(self, batch: int) -> None:
        """Spend what is left around the highest places: near a top only rounding decides, and no gradient knows it."""
        while (left := self.judge.left) > 0 and not self.met:
            places = np.resize(self.elite.at, (min(batch, left), *self.judge.box.shape))
            self._keep(self.judge(self._moved(places, FINAL)))

    def _keep(self, found: Judged) -> None:
        """Remember the highest places, those that are apart."""
        box = self.judge.box
        self.elite = self.elite.join(found).tops(AGAIN, APART * (box.upper - box.lower))

    def _climbed(self, group: Climbers) -> Climbers:
        """Some rounds, with as many climbers as the budget allows."""
        for _ in range(ROUNDS):
            affordable = self.judge.left // self.slope.round
            if affordable < 1:
                break
            group = climb(group.worst(affordable), self.judge, self.slope, self.rng)
        return group

    def _candidates(self, count: int) -> Array:
        """Places (N, ...) where climbs may start, only in boxes that are left where there are any.

        Around the highest places so far, in the boxes with the largest bounds, at random, and near anchors.
        """
        box, many = self.judge.box, CANDIDATES * count
        near = np.empty((0, *box.shape)) if self.tokens else near_anchors(self.network, box, many // 2, self.rng)
        anywhere = random_points(box, self.tokens, (many - len(near)) * (self.tokens or 1), self.rng)
        left = None if self.boxes is None else self.boxes.left(self.judge.error)
        if left is None or not len(left):
            return np.concatenate([self._again(count), anywhere, near])
        inside = points_inside(left, many, self.rng).reshape(-1, *box.shape)
        others = np.concatenate([anywhere, near])
        others = others[left.holds(others.reshape(len(others), -1))]
        return np.concatenate([self._again(count), inside, others])

    def _again(self, count: int) -> Array:
        """The highest places so far, and these moved a little."""
        places = np.resize(self.elite.at, (max(1, min(AGAIN, count // 4)), *self.judge.box.shape))
        return np.concatenate([places[:1], self._moved(places, MOVED)])

    def _moved(self, places: Array, powers: tuple[float, float]) -> Array:
        """Places moved at random, each by a scale of its own between two powers of ten of the sides."""
        box = self.judge.box
        scales = 10.0 ** -self.rng.uniform(*powers, size=(len(places), *[1] * len(box.shape)))
        moves = self.rng.normal(size=places.shape) * scales * (box.upper - box.lower)
        return np.clip(places + moves, box.lower, box.upper)

    def _cut(self, count: int) -> None:
        """Cut so many boxes, in batches that grow while they take little of the time."""
        done, judge = 0, self.judge
        while done < count and judge.left > 0 and self.cutting <= CUTTING * judge.elapsed:
            if self.boxes is None or self.bounds is None or len(self.boxes) >= MOST_BOXES:
                return
            before, had = judge.elapsed, len(self.boxes)
            self.boxes = cut(self.boxes, self.bounds, judge.error, min(self.cuts, count - done))
            if len(self.boxes) == had:
                return
            done += len(self.boxes) - had
            if judge.seconds is None:  # then nothing may depend on the clock
                self.cuts = count
                continue
            taken = judge.elapsed - before
            self.cutting += taken
            self.cuts = 2 * self.cuts if taken < PART * judge.seconds else max(1, self.cuts // 2)
