r"""Scores of a head as they run, against the bilinear form that its weights are.

A score is $\sum_{R,R'} x_R^T B_{RR'}\, y_{R'}$ over the registers of query and key, $B_{RR'} = Q_R K_{R'}^T$; at what
registers should hold, in exact arithmetic, it is the *nominal* one. A run departs from it by
$$ \sum_r \bigl( |dq_r| |k_r| + |q_r| |dk_r| \bigr) + \gamma \sum_r |q_r k_r| , $$
dq and dk the errors of registers and of the products with W_Q and W_K, and the noise of a stream whose registers are
directions. The part of dq is the same for all keys, so it matters only as far as keys differ in a column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.certification.programs.held import State
from attnforge.certification.programs.products import rounding
from attnforge.certification.stream import Noise
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Head
from attnforge.outward import Balls, Machine, Up
from attnforge.targets.programs.registers import Key

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """A head's scores in a run on tokens of a state; at most ``keys`` keys. ``noise`` is in what it reads."""

    head: Head
    state: State
    machine: Machine
    keys: int
    noise: Noise = field(default_factory=dict)

    @property
    def arithmetic(self) -> SoftmaxArithmetic:
        """Its softmax."""
        return SoftmaxArithmetic(self.machine, self.keys, written_out=self.head.is_small)

    def block(self, query: Key, key: Key) -> Balls:
        """B of two registers, one row a label of the query, one column a label of the key."""
        assert self.head.key is not None
        asking, told = self.state[query].register.features, self.state[key].register.features
        return Balls.exact(self.head.query[asking]) @ Balls.exact(self.head.key[told].T)

    def constant(self, query: Key) -> Balls:
        """The same with the constant keys."""
        assert self.head.memory_keys is not None
        asking = self.state[query].register.features
        return Balls.exact(self.head.query[asking]) @ Balls.exact(self.head.memory_keys.T)

    @property
    def asking(self) -> list[Key]:
        """Registers that queries read."""
        return self._read(self.head.query)

    @property
    def told(self) -> list[Key]:
        """Registers that keys read."""
        return [] if self.head.key is None else self._read(self.head.key)

    def _read(self, weights: Array) -> list[Key]:
        return [
            each.register.key
            for each in self.state
            if each.is_written and np.any(weights[each.register.features])
        ]  # fmt: skip

    @cached_property
    def query_error(self) -> Up:
        """Of dq, (r,)."""
        return self._error("query", self.head.query)

    @cached_property
    def key_error(self) -> Up:
        """Of dk, (r,)."""
        if self.head.key is None:
            return Up.zeros(self.head.query.shape[1])
        return self._error("key", self.head.key)

    @cached_property
    def value_error(self) -> Up:
        """Of values of tokens, (v,)."""
        assert self.head.value is not None
        return self._error("value", self.head.value)

    def made(self, name: str, weights: Array) -> Up:
        """What a run adds to features times weights (m, r), as features are in the run: (r,)."""
        rounded = rounding(self.state, weights, self.machine)
        return rounded + self.noise[name] if name in self.noise else rounded

    def _error(self, name: str, weights: Array) -> Up:
        return self.state.errors(weights) + self.made(name, weights)

    @cached_property
    def key_sizes(self) -> Up:
        """Of keys in a run, (r,), those of tokens and constants."""
        sizes = Up.zeros(self.head.query.shape[1])
        if self.head.key is not None:
            sizes = self.state.sizes(self.head.key) + self.key_error
        if self.head.memory_keys is not None:
            sizes = sizes.larger(Up.of(self.head.memory_keys).most(0))
        return sizes

    @cached_property
    def query_sizes(self) -> Up:
        """Of queries in a run, (r,)."""
        return self.state.sizes(self.head.query) + self.query_error

    @cached_property
    def products(self) -> Up:
        """Of the sum of the sizes of a score's products in a run.

        Of the products of two registers that hold labels those of one pair of labels count: $|x|^T |B| |y|$ is at most
        the largest entry of |B| times the sums of |x| and |y|. What W_Q and W_K round comes on top.
        """
        total = Up.of(0.0)
        for one in self.state:
            asking = self.head.query[one.register.features]
            if not asking.any():
                continue
            for two in self.state if self.head.key is not None else ():
                assert self.head.key is not None
                told = self.head.key[two.register.features]
                if told.any():
                    total = total + (Up.of(asking) @ Up.of(told).T).most() * one.total * two.total
            if self.head.memory_keys is not None:
                total = total + (Up.of(asking) @ Up.of(self.head.memory_keys).T).most() * one.total
        return total + (self.query_error * self.key_sizes + self.query_sizes * self.key_error).sum()

    def check_range(self) -> None:
        """Raise unless all numbers fit the dtype."""
        largest = max(float(self.products), float(self.query_sizes.most()), float(self.key_sizes.most()))
        if not 4 * largest < self.machine.largest:
            got = f"numbers up to {largest:.3g}"
            raise RefusalError(f"Every number of the run must fit {self.machine.name}", got, "Use a wider dtype")


def check_rows(head: Head, name: str, over_tokens: bool) -> None:
    """Raise unless a head asks at all tokens, and has the keys that its register needs."""
    whole = head.query_rows.kind == "all"
    rows = head.key_rows
    fits = (rows is not None and rows.kind == "all" and rows.source == "state") if over_tokens else rows is None
    if not (whole and fits):
        what = "all tokens" if over_tokens else "constants"
        raise CertificateError(f"{name}: a head of all tokens whose keys are {what}", "another", "Build it anew")
