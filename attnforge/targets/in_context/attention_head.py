"""An attention head as a target: what its emulation from a prompt is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, TargetError
from attnforge.targets.domain import Box
from attnforge.targets.target import AnyArray, Target, TruncatedForm, box_from_data, box_to_data

Array = npt.NDArray[np.float64]

TOGETHER = 8  # tokens of the sequences on which errors are looked for


@dataclass(frozen=True)
class HeadShape:
    """Features d of a token, width r of queries and keys, outputs v.

    >>> HeadShape(3, 2, 1).width
    8
    """

    features: int
    width_of_scores: int
    outputs: int

    def __post_init__(self) -> None:
        if min(self.features, self.width_of_scores, self.outputs) < 1:
            raise TargetError("A head has features, a width of scores and outputs", str(self), "Give at least one each")

    @property
    def projected(self) -> int:
        """Columns of the three matrices together."""
        return 2 * self.width_of_scores + self.outputs

    @property
    def width(self) -> int:
        """Features of a prompt's token: a key, and a row of the three matrices."""
        return self.features + self.projected


@dataclass(frozen=True, eq=False)
class AttentionHead(Target):
    """softmax(X W_Q W_K^T X^T) X W_V of X (..., n, d), for every n up to ``tokens``: values (..., n, v).

    ``query`` and ``key`` are (d, r), ``value`` is (d, v); ``domain`` (d,) holds the entries of every token.

    >>> one = np.ones((1, 1))
    >>> AttentionHead(one, one, one, Box(-1, 1, shape=(1,))).values(np.array([[1.0], [1.0]]))
    array([[1.],
           [1.]])
    """

    query: Array
    key: Array
    value: Array
    domain: Box
    tokens: int = 1024

    layout: Literal["function", "tokens", "prompt"] = field(default="tokens", init=False)

    def __post_init__(self) -> None:
        shapes = [matrix.shape for matrix in (self.query, self.key, self.value)]
        if any(len(shape) != 2 for shape in shapes) or shapes[0] != shapes[1] or shapes[0][0] != shapes[2][0]:
            raise TargetError("W_Q and W_K are (d, r) and W_V is (d, v)", f"shapes {shapes}", "Mend the shapes")
        if not all(np.all(np.isfinite(matrix)) for matrix in (self.query, self.key, self.value)):
            raise TargetError("The matrices of a head are finite", "NaN or infinity", "Remove it")
        if type(self.tokens) is not int or self.tokens < 1:
            raise TargetError("`tokens` must be at least 1", f"{self.tokens!r:.80}", "Give the length of X")
        object.__setattr__(self, "domain", self.domain.fixed((self.shape.features,)))
        object.__setattr__(self, "outputs", self.shape.outputs)

    @property
    def shape(self) -> HeadShape:
        """The numbers the frozen network depends on."""
        return HeadShape(self.query.shape[0], self.query.shape[1], self.value.shape[1])

    @property
    def together(self) -> int:
        """A few tokens, so that scores matter."""
        return min(self.tokens, TOGETHER)

    def values(self, points: AnyArray) -> AnyArray:
        """The head's output, in the precision of the points."""
        scores = (points @ self.query) @ np.swapaxes(points @ self.key, -1, -2)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray((weights / weights.sum(axis=-1, keepdims=True)) @ (points @ self.value))

    def check_points(self, points: AnyArray) -> None:
        """Raise unless X is inside, and not too long."""
        if points.shape[-2] > self.tokens:
            remedy = "Ask for more `tokens`"
            raise DomainError(f"X has at most {self.tokens:,} tokens here", f"{points.shape[-2]:,}", remedy)
        self.domain.check(points)

    def on(self, domain: Box) -> AttentionHead:
        """The same head, for tokens of another box."""
        return AttentionHead(self.query, self.key, self.value, domain, self.tokens)

    def truncated_form(self) -> TruncatedForm:
        """Refused: a head is no truncated linear function."""
        raise TargetError("The target must be a truncated linear function", self.describe(), "Use a formula")

    def describe(self) -> str:
        """One line for people."""
        d, r, v = self.shape.features, self.shape.width_of_scores, self.shape.outputs
        return f"attention head on up to {self.tokens:,} tokens: {d} features, scores of width {r}, {v} outputs"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: everything."""
        arrays = {"query": self.query, "key": self.key, "value": self.value, **box_to_data(self.domain)}
        return {"kind": "attention_head", "tokens": self.tokens}, arrays

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> AttentionHead:
        """From a file."""
        return cls(arrays["query"], arrays["key"], arrays["value"], box_from_data(arrays), data["tokens"])
