r"""What the tokens of a prompt hold, and the prompt itself.

State tokens come first: they hold the weights w that are being fitted, and know their output by a unit vector. Of one
output there are two, w and its mirror image -w; of K > 1 outputs K, one a column. Then every example i twice, as
$(x_i, y_i)$ and mirrored, $(-x_i, -y_i)$: sums over both of them see odd functions only. They come in groups, sixteen
examples and their sixteen mirror images, then the next: what an example adds to a running sum its image soon takes
away, all but the little that is wanted, so that running sums stay small, and so does their rounding.

| feature | state token k | example | mirrored example |
|---|---|---|---|
| ``x`` | 0 | x | -x |
| ``plain`` | 0 | x | x |
| ``y`` | 0 | y | -y |
| ``w`` | w_k (or its mirror) | 0 | 0 |
| ``unit`` | e_k (or -1) | 0 | 0 |
| ``residual`` | 0 | workspace | workspace |
| ``first``, ``mirrored``, ``state`` | 0, 0, 1 | 1, 0, 0 | 0, 1, 0 |

With ``levels`` $L_k$ and ``answers`` $r(L_k)$ (:mod:`.interpolation`) anchor tokens follow the state tokens. Like them
they are no examples, so ``state`` is 1, and they alone hold ``scaled`` (workspace for $L_k w$), ``tilt`` $t_k$ with
$\tanh t_k = L_k / (2 L_{\max})$, ``level`` $L_k$, ``square`` $L_k^2$ and ``answer`` $r(L_k)$.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

GROUP = 16  # an example and its mirror image meet in the same one of 1, 2, 4, 8 or 16 interleaved running sums


@dataclass(frozen=True)
class Features:
    """The features of tokens for d inputs and K outputs, as slices; with ``levels``, of anchor tokens too.

    >>> Features(3, 1).y, Features(3, 1).width
    (slice(6, 7, None), 15)
    """

    inputs: int
    outputs: int
    levels: tuple[float, ...] = ()
    answers: tuple[float, ...] = ()

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each feature stands, by name."""
        d, k = self.inputs, self.outputs
        sizes = {"x": d, "plain": d, "y": k, "w": d, "unit": k, "residual": k, "first": 1, "mirrored": 1, "state": 1}
        if self.levels:
            sizes |= {"scaled": d, "tilt": 1, "level": 1, "square": 1, "answer": 1}
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    def __getattr__(self, name: str) -> slice:
        if name.startswith("_") or name not in self.slices:
            raise AttributeError(name)
        return self.slices[name]

    @property
    def width(self) -> int:
        """Features of a token."""
        return max(int(each.stop) for each in self.slices.values())

    @property
    def names(self) -> tuple[str, ...]:
        """A name for every column of a token.

        >>> Features(2, 1).names[:5]
        ('x[0]', 'x[1]', 'plain[0]', 'plain[1]', 'y')
        """
        sizes = {name: where.stop - where.start for name, where in self.slices.items()}
        return tuple(f"{name}[{i}]" if size > 1 else name for name, size in sizes.items() for i in range(size))

    @property
    def states(self) -> int:
        """State tokens."""
        return 2 if self.outputs == 1 else self.outputs

    @property
    def ahead(self) -> int:
        """Tokens before the examples: state tokens and anchors."""
        return self.states + len(self.levels)

    def constants(self) -> Array:
        """What the tokens before the examples hold in every prompt, (ahead, width)."""
        found = np.zeros((self.ahead, self.width))
        found[:, self.state] = 1.0
        signs = np.eye(self.outputs) if self.outputs > 1 else np.array([[1.0], [-1.0]])
        found[: self.states, self.unit] = signs
        if self.levels:
            levels = np.array(self.levels)
            columns = (np.arctanh(levels / (2 * levels.max())), levels, levels**2, np.array(self.answers))
            found[self.states :, self.tilt.start : self.answer.stop] = np.stack(columns, axis=1)
        return found

    def matrix(self, *columns: tuple[str, float], into: int | None = None) -> Array:
        """The (width, columns) matrix that reads named features, each times a number, side by side.

        With ``into``, all of them into the same columns, so many.

        >>> Features(1, 1).matrix(("y", 2.0)).T
        array([[0., 0., 2., 0., 0., 0., 0., 0., 0.]])
        """
        blocks = []
        for name, factor in columns:
            where = self.slices[name]
            block = np.zeros((self.width, into or where.stop - where.start))
            block[where] = factor * np.eye(where.stop - where.start, block.shape[1])
            blocks.append(block)
        return sum(blocks[1:], start=blocks[0]) if into else np.concatenate(blocks, axis=1)

    def writing(self, name: str, factor: float) -> Array:
        """The (size, width) matrix that writes a vector into a named feature, times a number."""
        return self.matrix((name, factor)).T.copy()


def prompt(features: Features, x: Any, y: Any, start: Any = None) -> Any:
    """Tokens (..., ahead + 2 n, width) of examples x (..., n, d) and y (..., n, K): NumPy in, NumPy out; torch alike.

    ``start`` (..., d, K) are the first weights, zero where None.
    """
    batch, n, ahead = x.shape[:-2], int(x.shape[-2]), features.ahead  # a tensor in graphs of torch.jit
    tokens = _zeros(x, (*batch, ahead + 2 * n, features.width))
    tokens[..., :ahead, :] = _like(x, features.constants())
    first, mirrored = places(n)
    if start is not None:
        start = _like(x, start) if isinstance(start, np.ndarray) else start
        for i in range(features.states):
            sign, k = (1.0, i) if features.outputs > 1 else (1.0 - 2.0 * i, 0)
            tokens[..., i, features.w] = sign * start[..., :, k]
    for rows, sign, flag in ((first, 1.0, features.first), (mirrored, -1.0, features.mirrored)):
        for feature, held in ((features.x, sign * x), (features.plain, x), (features.y, sign * y)):
            tokens[..., ahead + rows, feature] = held
        tokens[..., ahead + rows, flag] = 1.0
    return tokens


def places(examples: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where examples and their mirror images stand behind state tokens and anchors, group by group.

    >>> [where.tolist() for where in places(18)][0][14:], [where.tolist() for where in places(18)][1][14:]
    ([14, 15, 32, 33], [30, 31, 34, 35])
    """
    index = np.arange(examples)
    ahead = index // GROUP * GROUP  # examples of earlier groups, and so their images
    return index + ahead, index + ahead + np.minimum(examples - ahead, GROUP)


def weights_of(features: Features, tokens: Any) -> Any:
    """The weights (..., d, K) that the state tokens hold."""
    held = tokens[..., : features.outputs, features.w]
    return held.swapaxes(-1, -2)


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    return np.zeros(shape, dtype=like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def _like(like: Any, constants: Array) -> Any:
    return constants.astype(like.dtype) if isinstance(like, np.ndarray) else like.new_tensor(constants)
