r"""The two token formats of the in-context-learning literature, and the layers that read them.

Examples xs (..., n, d) and labels ys (..., n), or (..., n, k), become

- *concatenated*: n tokens $(x_i, y_i)$ of d + k features (von Oswald et al. 2023, Ahn et al. 2023);
- *interleaved*: 2n tokens $x_1, y_1, x_2, y_2, \dots$ of max(d, k) features, the narrower kind followed by zeros. For
  k = 1 that is the format of Garg et al. 2022: $(y_i, 0, \dots, 0)$ of d features.

As layers, :func:`from_concatenated` and :func:`from_interleaved` take either to the tokens of :mod:`.features`, so that
a whole algorithm is a network on raw tokens. They copy: every entry is multiplied by 0, 1 or -1, so the result is exact
in every dtype. Copies move between tokens, which takes dense matrices of tokens by tokens: the number of examples is
fixed, the weights are $32 n^2$ bytes from concatenated tokens and $64 n^2$ from interleaved ones, and more than
``MOST_BYTES`` are refused. :func:`.features.prompt` does the same in memory linear in n.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import is_tensor, numbers
from attnforge.errors import RefusalError, TargetError
from attnforge.network import Layer, Linear, Term
from attnforge.targets.in_context.features import Features, places, prompt

Array = npt.NDArray[np.float64]

MOST_BYTES = 2**30  # of weights: 5,792 examples concatenated, 4,095 interleaved


def concatenated(xs: Any, ys: Any) -> Any:
    """Tokens (x_i, y_i), (..., n, d + k); NumPy in, NumPy out; torch alike.

    >>> concatenated(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0]))
    array([[1., 2., 5.], [3., 4., 6.]])
    """
    xs, ys = _examples(xs, ys)
    d = xs.shape[-1]
    tokens = zeros_for(xs, ys, (*xs.shape[:-1], d + ys.shape[-1]))
    tokens[..., :d], tokens[..., d:] = xs, ys
    return tokens


def interleaved(xs: Any, ys: Any) -> Any:
    """Tokens x_1, y_1, x_2, y_2, ..., (..., 2n, max(d, k)), the narrower kind followed by zeros.

    >>> interleaved(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0]))
    array([[1., 2.], [5., 0.], [3., 4.], [6., 0.]])
    """
    xs, ys = _examples(xs, ys)
    (*batch, n, d), k = xs.shape, ys.shape[-1]
    tokens = zeros_for(xs, ys, (*batch, 2 * n, max(d, k)))
    tokens[..., 0::2, :d], tokens[..., 1::2, :k] = xs, ys
    return tokens


def split_concatenated(tokens: Any, inputs: int) -> tuple[Any, Any]:
    """The examples (..., n, d) and labels of concatenated tokens: (..., n), or (..., n, k) for k > 1.

    >>> split_concatenated(np.array([[1.0, 2.0, 5.0]]), inputs=2)
    (array([[1., 2.]]), array([5.]))
    """
    if not 1 <= inputs < tokens.shape[-1]:
        got = f"{inputs} inputs in tokens of {tokens.shape[-1]} features"
        raise TargetError("Concatenated tokens hold inputs and at least one label", got, "Pass inputs=d")
    return tokens[..., :inputs], _labels(tokens[..., inputs:])


def split_interleaved(tokens: Any, inputs: int, outputs: int = 1) -> tuple[Any, Any]:
    """The examples (..., n, d) and labels of interleaved tokens: (..., n), or (..., n, k) for k > 1.

    >>> split_interleaved(np.array([[1.0, 2.0], [5.0, 0.0]]), inputs=2)
    (array([[1., 2.]]), array([5.]))
    """
    rows, width = tokens.shape[-2:]
    if rows % 2 or min(inputs, outputs) < 1 or width != max(inputs, outputs):
        got, wanted = f"shape {tuple(tokens.shape)}", max(inputs, outputs)
        raise TargetError(f"Interleaved tokens have shape (..., 2n, {wanted})", got, "Pass inputs=d and outputs=k")
    return tokens[..., 0::2, :inputs], _labels(tokens[..., 1::2, :outputs])


def from_concatenated(features: Features, examples: int) -> tuple[Layer, ...]:
    """The layer from n concatenated tokens to the prompt: example i becomes two tokens, one of them mirrored.

    >>> (layer,) = from_concatenated(Features(2, 1), examples=3)
    >>> [term.mix.shape for term in layer.terms]
    [(8, 3), (8, 3)]
    """
    _check_bytes(features, examples, passes=1)
    d, k, ahead = features.inputs, features.outputs, features.ahead
    x, y = np.eye(d + k)[:, :d], np.eye(d + k)[:, d:]
    terms = []
    for where, sign in zip(places(examples), (1.0, -1.0), strict=True):
        copy = np.zeros((d + k, features.width))
        copy[:, features.x], copy[:, features.plain], copy[:, features.y] = sign * x, x, sign * y
        terms.append(Term(copy, _placed(ahead + 2 * examples, ahead + where)))
    return (Linear(tuple(terms), _without_data(features, examples)),)


def from_interleaved(features: Features, examples: int) -> tuple[Layer, ...]:
    """The layers from 2n interleaved tokens to the prompt: pairs are joined, then as concatenated tokens.

    >>> [len(layer.terms) for layer in from_interleaved(Features(2, 1), examples=3)]
    [2, 2]
    """
    _check_bytes(features, examples, passes=2)
    d, k = features.inputs, features.outputs
    width = max(d, k)
    of_x, of_y = np.repeat(np.eye(examples), 2, axis=1), np.repeat(np.eye(examples), 2, axis=1)
    of_x[:, 1::2], of_y[:, 0::2] = 0.0, 0.0
    joined = (Term(np.eye(width, d + k) * (np.arange(d + k) < d), of_x), Term(np.eye(width, d + k, k=d), of_y))
    return (Linear(joined), *from_concatenated(features, examples))


def zeros_for(x: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of the kind and device of x, in the dtype that holds both x and y."""
    if isinstance(x, np.ndarray):
        return np.zeros(shape, np.result_type(x, y))
    return x.new_zeros(shape, dtype=(x.new_zeros(1) + y.new_zeros(1)).dtype)


def _without_data(features: Features, examples: int) -> Array:
    """What every prompt of so many examples holds: units and flags."""
    nothing = np.zeros((examples, features.inputs)), np.zeros((examples, features.outputs))
    return np.asarray(prompt(features, *nothing)) + 0.0  # no negative zeros: two builds, one digest


def _placed(rows: int, where: npt.NDArray[np.int64]) -> Array:
    found = np.zeros((rows, len(where)))
    found[where] = np.eye(len(where))
    return found


def _examples(xs: Any, ys: Any) -> tuple[Any, Any]:
    """Examples (..., n, d) and labels (..., n, k), both NumPy or both torch."""
    if is_tensor(xs) != is_tensor(ys):
        kinds = f"{type(xs).__name__} and {type(ys).__name__}"
        raise TargetError("xs and ys must both be arrays or both be tensors", kinds, "Convert one of them")
    xs, ys = numbers(xs), numbers(ys)
    wide = ys[..., None] if len(ys.shape) == len(xs.shape) - 1 else ys
    if len(xs.shape) < 2 or tuple(wide.shape[:-1]) != tuple(xs.shape[:-1]):
        got = f"shapes {tuple(xs.shape)} and {tuple(ys.shape)}"
        raise TargetError("Examples have shapes (..., n, d) and (..., n) or (..., n, k)", got, "Reshape them")
    return xs, wide


def _labels(ys: Any) -> Any:
    return ys[..., 0] if ys.shape[-1] == 1 else ys


def _check_bytes(features: Features, examples: int, passes: int) -> None:
    if examples < 1:
        raise TargetError("`examples` must be at least 1", str(examples), "Give the number of examples")
    needed = passes * 16 * examples * (features.ahead + 2 * examples)
    if needed > MOST_BYTES:
        got = f"{examples:,} examples, {needed:,} bytes"
        remedy = "Make the prompt with features.prompt, whose memory is linear in the number of examples"
        raise RefusalError(f"Layers that copy tokens hold at most {MOST_BYTES:,} bytes of weights", got, remedy)
