r"""The error of a head over constant keys, enclosed on cells of the target's linear form and of what is beside it.

Such a head sees a token x only through its query q = A x + e. So the error at a token is a function of y = w . x + t
and q, and with $q = \alpha (y - t) + e + \rho$, $\alpha = A w / |w|^2$, the remainder $\rho$ is small where training
changed little. On a cell of (y, one entry of rho), the scores relative to those of the key that leads at its middle are
affine, so their ranges are sums of absolute values, and ``softmax_ranges`` has the range of the output. Soft heads
follow y closely; there the error at the middle y plus half the cell's width times the largest derivative of the error
is much smaller, and the smaller of the two is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.experiments.constructed_vs_trained.softmax_ranges import ROOM, UNDERFLOW, mixed_range, steepest
from attnforge.network import Attention, Head, Linear, Network
from attnforge.targets import TruncatedLinear

Array = npt.NDArray[np.float64]

BATCH = 4_000  # cells looked at together
STEPS = 64  # cells of y a token to begin with


@dataclass(frozen=True, eq=False)
class AlongForm:
    """Per token: slope and constant of the queries along y, what x may add, the range of y, and sums of magnitudes."""

    slope: Array  # (n, r)
    constant: Array  # (n, r)
    rest: Array  # (n, r)
    magnitude: Array  # (n, r)
    reach: Array  # (n, 2)
    keys: Array  # (p, r), in ascending order of values
    values: Array  # (p,)
    split: int
    interval: tuple[float, float]

    @classmethod
    def of(cls, network: Network, target: TruncatedLinear) -> AlongForm:
        """Read the network."""
        maps, shifts, head = _read(network)
        values = np.asarray(head.memory_values) @ head.output[:, 0]
        order = np.argsort(values, kind="stable")
        keys = np.asarray(head.memory_keys)[order]
        a, e = maps @ head.query, shifts @ head.query  # (n, d, r), (n, r)
        box = target.domain.fixed((len(e), network.features))
        middle, half = (box.upper + box.lower) / 2, (box.upper - box.lower) / 2
        w = np.broadcast_to(target.w, (len(e), network.features))
        t = np.broadcast_to(target.t, (len(e),))
        slope = (a * w[:, :, None]).sum(axis=1) / np.maximum((w * w).sum(axis=1), UNDERFLOW)[:, None]
        aside = a - slope[:, None, :] * w[:, :, None]
        centre = (aside * middle[:, :, None]).sum(axis=1)
        largest = np.abs(middle) + half
        size = (np.abs(maps) * largest[:, :, None]).sum(axis=1) + np.abs(shifts)
        reach = (np.abs(w) * largest).sum(axis=1) + np.abs(t)
        about = (w * middle).sum(axis=1) + t
        wide = (np.abs(w) * half).sum(axis=1) + ROOM * reach
        magnitude = size @ np.abs(head.query) + np.abs(slope) * (reach + np.abs(t))[:, None]
        rest = (np.abs(aside) * half[:, :, None]).sum(axis=1) + ROOM * magnitude
        split = int(np.argmax((rest * np.ptp(keys, axis=0)).max(axis=0)))
        return cls(
            slope,
            e - slope * t[:, None] + centre,
            rest,
            magnitude,
            np.stack([about - wide, about + wide], axis=1),
            keys,
            values[order],
            split,
            (target.lower, target.upper),
        )

    def first_cells(self) -> Array:
        """Rows (token, y from, y to, remainder from, remainder to) that cover everything."""
        ends = np.linspace(self.reach[:, 0], self.reach[:, 1], STEPS + 1, axis=1)
        ends[:, -1] = self.reach[:, 1]
        rest = np.repeat(self.rest[:, self.split], STEPS)
        token = np.repeat(np.arange(len(ends), dtype=np.float64), STEPS)
        return np.stack([token, ends[:, :-1].ravel(), ends[:, 1:].ravel(), -rest, rest], axis=1)

    def enclose(self, cells: Array) -> tuple[Array, Array, Array]:
        """A bound of the error on every cell, the error at its middle, and the column to divide it along."""
        parts = [self._enclose(cells[i : i + BATCH]) for i in range(0, len(cells), BATCH)]
        upper, middle, along = zip(*parts, strict=True)
        return np.concatenate(upper), np.concatenate(middle), np.concatenate(along)

    def _enclose(self, cells: Array) -> tuple[Array, Array, Array]:
        token = cells[:, 0].astype(np.int64)
        y, half = (cells[:, 2] + cells[:, 1]) / 2, (cells[:, 2] - cells[:, 1]) / 2
        slope, rest = self.slope[token], self.rest[token].copy()
        query = self.constant[token] + slope * y[:, None]
        query[:, self.split] += (cells[:, 4] + cells[:, 3]) / 2
        rest[:, self.split] = (cells[:, 4] - cells[:, 3]) / 2
        scores = query @ self.keys.T
        first = np.argmax(scores, axis=1)
        leader, lead = self.keys[first], np.arange(len(first))
        along = slope @ self.keys.T
        middle = scores - scores[lead, first][:, None]
        rates = along - along[lead, first][:, None]  # of the relative scores, per unit of y
        aside = np.zeros_like(middle)
        for feature in range(self.keys.shape[1]):
            aside += np.abs(self.keys[:, feature] - leader[:, feature, None]) * rest[:, feature, None]
        size = self.magnitude[token]
        aside += ROOM * (1 + size @ np.abs(self.keys).T + (size * np.abs(leader)).sum(axis=1)[:, None])
        away = aside + np.abs(rates) * half[:, None]
        a, b = self.interval
        largest = np.abs(self.values).max() + max(abs(a), abs(b))
        low, high = mixed_range(middle - away, middle + away, self.values)
        whole = np.maximum(high - np.clip(cells[:, 1], a, b), np.clip(cells[:, 2], a, b) - low)
        low, high = mixed_range(middle - aside, middle + aside, self.values)
        across = np.maximum(high - np.clip(y, a, b), np.clip(y, a, b) - low)
        inside = (cells[:, 1] >= a) & (cells[:, 2] <= b), (cells[:, 2] > a) & (cells[:, 1] < b)
        steep = steepest(middle - away, middle + away, rates, self.values - self.values[first][:, None], inside)
        error = np.minimum(whole, across + half * steep * (1 + ROOM)) + ROOM * largest
        weights = np.exp(middle)
        there = weights @ self.values / weights.sum(axis=1)
        beside = np.abs(np.diff(self.keys, axis=0)).max(axis=0)  # what each does to the scores of neighbouring keys
        sideways = rest[:, self.split] * beside[self.split] > half * (np.abs(slope) @ beside)
        return np.minimum(error, largest * (1 + ROOM)), np.abs(there - np.clip(y, a, b)), np.where(sideways, 3, 1)


def _read(network: Network) -> tuple[Array, Array, Head]:
    """Maps (n, d, m), constants (n, m) and the head of a network of one linear map and one head over constant keys."""
    shape = [type(layer) for layer in network.layers]
    if shape != [Linear, Attention] or network.tokens is None:
        raise CertificateError("This proof covers a linear map and one layer of attention", str(shape))
    encode, attention = network.layers
    assert isinstance(encode, Linear)
    assert isinstance(attention, Attention)
    if len(attention.heads) != 1 or len(encode.terms) != 1 or attention.residual:
        got = f"{len(attention.heads)} heads, {len(encode.terms)} linear terms, residual={attention.residual}"
        raise CertificateError("This proof covers one head after one linear term", got)
    head, term = attention.heads[0], encode.terms[0]
    if term.map is None or term.mix is not None or head.memory_keys is None or not _plain(head):
        raise CertificateError("This proof covers a head over constant keys that sees each token on its own", "another")
    if head.output.shape[1] != 1:
        raise CertificateError("This proof covers one output feature", str(head.output.shape[1]))
    n, constant = network.tokens, encode.constant
    maps = np.broadcast_to(term.map, (n, *term.map.shape[-2:]))
    shifts = np.zeros((n, maps.shape[-1])) if constant is None else np.broadcast_to(constant, (n, maps.shape[-1]))
    return maps, shifts, head


def _plain(head: Head) -> bool:
    """Whether every token asks, and no token is asked."""
    return head.key_rows is None and head.query_rows.kind == "all"
