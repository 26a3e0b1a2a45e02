r"""What every token's features are before attention: affine functions of one input token, with the run's rounding.

A linear map computes $Z' = \sum Q Z P + R$. In exact arithmetic with the weights that run (already rounded to the
dtype), each feature of each row is affine in the input of one token: slope, constant. The run departs from that by at
most ``error``: inputs are rounded to the dtype once, and an output that takes k rounded operations adds
$\gamma_k \sum |z||P|$ or less, valid for every summation order. Products by zero, one and powers of two are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import count_roundings, gammas, power_of_two
from attnforge.network import Attention, Linear, Network, Term
from attnforge.outward import Balls, Machine, Up

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """R rows of m features, each affine in the d inputs of one token: slope (R, d, m), constant (R, m), error (R, m).

    ``source`` (R,) is the input token a row reads, ``box`` (R, d) where that token lives.
    """

    source: npt.NDArray[np.int64]
    box: Balls
    slope: Balls
    constant: Balls
    error: Array

    def magnitude(self) -> Array:
        """Upper bound (R, m) of the absolute value of each feature as it runs."""
        return inner(self.slope, self.box, self.constant).magnitude() + self.error

    def is_simple(self) -> npt.NDArray[np.bool_]:
        """Which features (R, m) are a constant, known to the run, by which products are exact: a power of two or 0."""
        constant = ~np.any(self.slope.magnitude() > 0, axis=1) & (self.error == 0) & (self.constant.rad == 0)
        return np.asarray(constant & power_of_two(self.constant.mid))

    def rows(self, index: npt.NDArray[np.int64] | slice) -> Tokens:
        """Some of the rows."""
        return Tokens(self.source[index], self.box[index], self.slope[index], self.constant[index], self.error[index])


def input_tokens(lower: Array, upper: Array, machine: Machine, exact: bool = False) -> Tokens:
    """The inputs themselves, (n, d) in their box, rounded to the dtype unless they are ``exact`` or float64."""
    n, d = lower.shape
    box = Balls.between(lower, upper)
    eye = np.broadcast_to(np.eye(d), (n, d, d))
    error = np.zeros((n, d)) if exact else machine.cast(Up.of(box)).values
    return fitting(Tokens(np.arange(n), box, Balls.exact(eye), Balls.exact(np.zeros((n, d))), error), machine)


def whole_input(lower: Array, upper: Array, machine: Machine, exact: bool = False) -> Tokens:
    """The (n, d) inputs as rows that may read all n d numbers: for maps that mix tokens."""
    n, d = lower.shape
    tokens = input_tokens(lower, upper, machine, exact)
    varies = lower < upper  # what does not is a constant, by which products may be exact
    slope = np.zeros((n, n * d, d))
    for i in range(n):
        slope[i, i * d : (i + 1) * d] = np.diag(varies[i].astype(np.float64))
    constant = Balls.exact(np.where(varies, 0.0, lower))
    box = Balls(*(np.broadcast_to(part.reshape(1, n * d), (n, n * d)) for part in (tokens.box.mid, tokens.box.rad)))
    return Tokens(np.zeros(n, dtype=np.int64), box, Balls.exact(slope), constant, tokens.error)


def linear(layer: Linear, tokens: Tokens, machine: Machine) -> Tokens:
    """The rows after a linear map; rows of different inputs are picked, those of one (:func:`whole_input`) mixed."""
    parts = [_term(term, tokens, machine) for term in layer.terms]
    total = parts[0]
    for part in parts[1:]:
        inputs = ((each.source, each.box.mid, each.box.rad) for each in (part, total))
        if not all(np.array_equal(one, two) for one, two in zip(*inputs, strict=True)):
            raise CertificateError("This proof adds up rows of the same token", "rows of different ones")
        rounding = machine.roundoff * (total.magnitude() + part.magnitude())
        rounding = rounding * ((total.magnitude() > 0) & (part.magnitude() > 0))
        error = (total.error + part.error + rounding) * (1 + 2.0**-40)
        total = Tokens(total.source, total.box, total.slope + part.slope, total.constant + part.constant, error)
    return total if layer.constant is None else _shift(layer.constant, total, machine)


def one_layer(network: Network) -> tuple[tuple[Linear, ...], Attention]:
    """The linear maps before the only layer of attention, and that; after it only the first tokens may be read."""
    at = next((i for i, layer in enumerate(network.layers) if isinstance(layer, Attention)), 0)
    encode, attention = tuple(each for each in network.layers[:at] if isinstance(each, Linear)), network.layers[at]
    if not isinstance(attention, Attention) or attention.residual or len(encode) != at:
        got = ", ".join(type(layer).__name__ for layer in network.layers)
        raise CertificateError("This proof covers linear maps, one layer of attention, and a read-out", got)
    for layer in network.layers[at + 1 :]:
        term = layer.terms[0] if isinstance(layer, Linear) and len(layer.terms) == 1 else None
        mix = None if term is None or term.map is not None else term.mix
        added = isinstance(layer, Linear) and layer.constant is not None
        if mix is None or added or not np.array_equal(mix, np.eye(network.tokens or 1, mix.shape[1])):
            raise CertificateError("After attention, only the first tokens are read", "another layer")
    return encode, attention


def _term(term: Term, tokens: Tokens, machine: Machine) -> Tokens:
    tokens, mix = tokens if term.map is None else project(tokens, term.map, machine), term.mix
    if mix is None:
        return tokens
    if mix.shape[1] != len(tokens.source):
        raise CertificateError("A mixing is one of all rows", f"{mix.shape[1]} of {len(tokens.source)}")
    if np.all((mix == 0) | (mix == 1)) and np.all(mix.sum(axis=1) <= 1):
        return _picked(mix, tokens)
    if any(np.any(each != each[:1]) for each in (tokens.source, tokens.box.mid, tokens.box.rad)):
        raise CertificateError("This proof mixes rows that read the same inputs", "a mixing of tokens")
    return _mixed(mix, tokens, machine)


def _mixed(mix: Array, tokens: Tokens, machine: Machine) -> Tokens:
    by, rows = Balls.exact(mix), len(mix)
    inputs, width = tokens.slope.shape[1:]
    flat = Balls(tokens.slope.mid.reshape(-1, inputs * width), tokens.slope.rad.reshape(-1, inputs * width))
    slope = by @ flat
    single = (mix != 0).sum(axis=1, keepdims=True) <= 1
    plain = single & np.all(power_of_two(mix), axis=1, keepdims=True)
    slope = _exact_where(plain, slope, np.abs(mix) @ flat.rad)
    constant = _exact_where(plain, by @ tokens.constant, np.abs(mix) @ tokens.constant.rad)
    roundings = count_roundings(mix.T)[:, None]
    made = gammas(roundings, machine.roundoff) * (np.abs(mix) @ tokens.magnitude())
    error = (np.abs(mix) @ tokens.error + made) * (1 + 2.0**-40)
    shape = (rows, inputs, width)
    return Tokens(
        np.repeat(tokens.source[:1], rows),
        Balls(*(np.broadcast_to(part[:1], (rows, inputs)) for part in (tokens.box.mid, tokens.box.rad))),
        Balls(slope.mid.reshape(shape), slope.rad.reshape(shape)),
        constant,
        error,
    )


def project(tokens: Tokens, weights: Array, machine: Machine) -> Tokens:
    """Features times a matrix (m, m') or one matrix a row (R, m, m')."""
    each = np.broadcast_to(weights, (len(tokens.source), *weights.shape[-2:]))
    operations = _operations(tokens, each)
    exact = (operations == 0)[:, None, :]
    slope = _exact_where(exact, tokens.slope @ Balls.exact(each), tokens.slope.rad @ np.abs(each))
    rows = Balls(tokens.constant.mid[:, None, :], tokens.constant.rad[:, None, :])
    constant = _exact_where(exact, rows @ Balls.exact(each), rows.rad @ np.abs(each))
    carried = (tokens.error[:, None, :] @ np.abs(each))[:, 0]
    size = inner(slope, tokens.box, constant[:, 0]).magnitude() + carried
    made = _made(tokens, each, size, machine)
    error = (carried + made + operations * machine.underflow) * (1 + 2.0**-40)
    return fitting(Tokens(tokens.source, tokens.box, slope, constant[:, 0], error), machine)


def _made(tokens: Tokens, each: Array, size: Array, machine: Machine) -> Array:
    """What products and sums round (R, m'), in any order: the last sum by a unit of the output, at most ``size``.

    Sums before it err by a unit of all products together, and products by one of themselves, where they are not exact.
    """
    told, terms = tokens.magnitude(), (each != 0).sum(axis=-2)
    whole = (told[:, None, :] @ np.abs(each))[:, 0]
    rounded = np.where(power_of_two(each), 0.0, np.abs(each))
    inexact = (np.where(tokens.is_simple(), 0.0, told)[:, None, :] @ rounded)[:, 0]
    sums = np.maximum(terms - 2, 0) * whole + np.minimum(np.maximum(terms - 1, 0), 1) * np.minimum(size, whole)
    return np.asarray(machine.roundoff * (1 + gammas(terms + 2, machine.roundoff)) * (inexact + sums))


def fitting(tokens: Tokens, machine: Machine) -> Tokens:
    """The same rows, after checking that no feature leaves the dtype's range on the domain."""
    largest = float(tokens.magnitude().max(initial=0.0))
    if not largest < machine.largest:
        raise RefusalError(
            f"Every number of the run must fit {machine.name}, up to {machine.largest:g}",
            f"{largest:.3g}",
            "Shrink the domain or the weights, or use a wider dtype",
        )
    return tokens


def inner(slope: Balls, box: Balls, constant: Balls) -> Balls:
    """Slope . x + constant over the box: (R, d, m), (R, d), (R, m) to (R, m)."""
    return (Balls(box.mid[:, None, :], box.rad[:, None, :]) @ slope)[:, 0] + constant


def _exact_where(exact: npt.NDArray[np.bool_], product: Balls, carried: Array) -> Balls:
    return Balls(product.mid, np.where(exact, carried, product.rad))


def _operations(tokens: Tokens, each: Array) -> Array:
    """Roundings behind each output: one where a product is not exact, one for each further addend.

    A product is exact when either factor is a power of two or zero: a weight, or a feature that is such a constant.
    """
    nonzero = each != 0
    inexact = ~power_of_two(each) & ~tokens.is_simple()[:, :, None]
    further = np.maximum(nonzero.sum(axis=-2) - 1, 0)
    return np.asarray(np.any(inexact, axis=-2) + further, dtype=np.float64)


def _picked(mix: Array, tokens: Tokens) -> Tokens:
    """Rows picked or dropped by a matrix of zeros and ones with at most one 1 a row."""
    source, present = mix.argmax(axis=1), np.asarray(mix.any(axis=1))

    def picked(balls: Balls) -> Balls:
        keep = present.reshape(-1, *(1,) * (balls.mid.ndim - 1))
        return Balls(np.where(keep, balls.mid[source], 0.0), np.where(keep, balls.rad[source], 0.0))

    error = np.where(present[:, None], tokens.error[source], 0.0)
    origin = np.where(present, tokens.source[source], 0)
    return Tokens(origin, tokens.box[source], picked(tokens.slope), picked(tokens.constant), error)


def _shift(constant: Array, tokens: Tokens, machine: Machine) -> Tokens:
    """Add a constant: exact where either side is exactly zero."""
    addend = np.broadcast_to(constant, tokens.constant.shape)
    before = tokens.magnitude()
    rounding = machine.roundoff * (before + np.abs(addend)) * ((before > 0) & (addend != 0))
    error = (tokens.error + rounding) * (1 + 2.0**-40)
    shifted = tokens.constant + Balls.exact(addend)
    return fitting(Tokens(tokens.source, tokens.box, tokens.slope, shifted, error), machine)
