r"""Statements about networks as they run, and theorems, which nothing but a rule of the kernel makes.

A network N with weights held in a dtype does not compute one function: sums may be added up in any order, kernels
differ in the last bits. ``Run`` is the *set* of all functions that executions may compute which the arithmetic of the
dtype allows (:mod:`attnforge.kernel.softmax` says which these are). A statement is

$$ \sup_{x \in D} |r(x) - T(x)| \le b \qquad \text{for every } r \in \mathrm{Run}_d(N), $$

D a box of inputs, T what the outputs of the network are compared with. ``Formulas`` lists outputs, each with a formula
of the inputs: an entry of the output that is not listed is not spoken about.

A ``Theorem`` is a statement, a bound and the hypotheses under which it holds. Whoever holds one may believe it for the
reason alone that the rules of the kernel are sound, as in Milner's LCF: there is no public constructor, fields do not
change, copies with other fields, subclasses and pickles are refused. (A program that sets out to forge one can do so in
Python, as it can change the kernel in memory. What is stored is therefore the *derivation*, plain data that
:mod:`attnforge.kernel.replay` turns into a theorem again, or not.)

The hypotheses are the arithmetic (:func:`arithmetic`) and whatever else a rule was given, such as a Lipschitz constant
that somebody vouches for, in words. To rest on the arithmetic alone is to be proved, on more to be conditional: where
a rule is given nothing, nobody else can say which of them it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NoReturn, TypeAlias, final

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.expression.tree import Node, variables
from attnforge.kernel.softmax import ULPS, ULPS_SINGLE
from attnforge.network import FEW, Network, rounded
from attnforge.outward import Machine, machine

Array = npt.NDArray[np.float64]
Data = Mapping[str, Any]

REMEDY = "State it of the network's own inputs and outputs"


def arithmetic(dtype: str) -> str:
    """What every bound assumes of the arithmetic that runs, in words."""
    is_double = machine(dtype).bytes == 8
    small = (
        "" if is_double else f"; {ULPS} units where a head has at most {FEW} keys, its own token and constants, whose "
        "softmax is written out: exponentials of scores less the largest, their sum, quotients"
    )  # fmt: skip
    return (
        f"IEEE rounding in {dtype}, with no autocast and no products in fewer bits; sums added up in any order; "
        f"attention scores, exponentials and sums accumulated in {dtype if is_double else 'float32'} or better, and "
        "softmax in blocks of at least 64 keys, as PyTorch's kernels do; exponentials within "
        f"{ULPS if is_double else ULPS_SINGLE} units in the last place{small}"
    )


@dataclass(frozen=True, eq=False)
class Run:
    """The set of functions that executions of a network in a dtype may compute."""

    network: Network
    dtype: str

    @cached_property
    def held(self) -> Network:
        """The network with its weights as the dtype holds them."""
        return rounded(self.network, self.dtype)

    @cached_property
    def machine(self) -> Machine:
        """The arithmetic."""
        return machine(self.dtype)


@dataclass(frozen=True, eq=False)
class Domain:
    """All inputs (tokens, features) between two, ends included.

    >>> Domain(np.zeros((1, 2)), np.ones((1, 2))).shape
    (1, 2)
    """

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            ends = np.array(getattr(self, name), dtype=np.float64)
            ends.flags.writeable = False
            object.__setattr__(self, name, ends)
        fits = self.lower.ndim == 2 and self.lower.shape == self.upper.shape and self.lower.size > 0
        if not fits or not (np.isfinite(self.lower) & np.isfinite(self.upper) & (self.lower <= self.upper)).all():
            got = f"ends of shapes {self.lower.shape} and {self.upper.shape}"
            raise CertificateError("A domain lies between finite arrays (tokens, features), lower first", got, REMEDY)

    @property
    def shape(self) -> tuple[int, int]:
        """How many tokens, and features of each."""
        return self.lower.shape[0], self.lower.shape[1]

    @property
    def ends(self) -> tuple[Array, Array]:
        """The lower and upper ends (inputs,), token after token."""
        return self.lower.ravel(), self.upper.ravel()


@dataclass(frozen=True, eq=False)
class Output:
    """One feature of one row of the output, and the formula of the inputs, by number, that it is compared with."""

    row: int
    feature: int
    tree: Node
    inputs: Mapping[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))


@dataclass(frozen=True, eq=False)
class Formulas:
    """Outputs, each with its formula; the bound is of the largest error among them."""

    outputs: tuple[Output, ...]


Target: TypeAlias = Formulas


@dataclass(frozen=True, eq=False)
class Statement:
    """Every run, on every input of the domain, is near the target: how near is for a theorem to say."""

    run: Run
    target: Target
    domain: Domain

    def __post_init__(self) -> None:
        network, (tokens, features) = self.run.network, self.domain.shape
        if network.context is not None or network.features != features or network.tokens not in (None, tokens):
            wanted = f"{network.tokens or 'any'} tokens of {network.features} features"
            raise CertificateError("The domain is one of the network's only input", f"{tokens} tokens for {wanted}")
        if not self.target.outputs:
            raise CertificateError("Some output is compared", "none", REMEDY)
        for output in self.target.outputs:
            self._check(output)

    def _check(self, output: Output) -> None:
        inputs = output.inputs
        if min(output.row, output.feature, *inputs.values(), 0) < 0 or max([*inputs.values(), 0]) >= self.inputs:
            got = f"row {output.row}, feature {output.feature}, inputs {sorted(inputs.values())[:8]}"
            raise CertificateError("Rows, features and inputs are counted from 0", got, REMEDY)
        if unknown := [name for name in variables(output.tree) if name not in inputs]:
            raise CertificateError("A formula reads inputs", f"`{unknown[0]}`", "Name all its inputs")

    @property
    def inputs(self) -> int:
        """How many numbers an input consists of."""
        return self.domain.lower.size


_KEY = object()  # what rules show


@final
@dataclass(frozen=True, eq=False, slots=True)
class Theorem:
    """The statement holds with this bound, under the hypotheses; ``parts`` add up to no more than the bound.

    ``derivation`` is plain data from which the rule makes the theorem again.
    """

    statement: Statement
    bound: float
    rule: str
    hypotheses: tuple[str, ...]
    parts: Mapping[str, float]
    derivation: Data
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise CertificateError("Theorems are made by the rules of the kernel alone", "other fields", "Prove it")

    def __init_subclass__(cls) -> None:
        raise CertificateError("Theorems are made by the rules of the kernel alone", "a subclass", "Prove it")

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise CertificateError("Theorems are not copied or pickled", self.rule, "Store the derivation, and replay it")

    @property
    def status(self) -> Literal["proved", "conditional"]:
        """Whether it rests on the arithmetic alone."""
        return "proved" if self.hypotheses == (arithmetic(self.statement.run.dtype),) else "conditional"


def concluded(
    statement: Statement,
    bound: float,
    rule: str,
    parts: Mapping[str, float],
    derivation: Data,
    given: tuple[str, ...] = (),
) -> Theorem:
    """What a rule of the kernel has established, with what was ``given`` to it: nothing else calls this."""
    if not 0 <= bound < np.inf:
        raise CertificateError("Some bound must hold everywhere on the domain", f"{bound}", "Prove it another way")
    if min(parts.values(), default=0.0) < 0 or sum(map(Fraction, parts.values())) > Fraction(bound):
        raise CertificateError("The parts of a bound add up to it", f"{dict(parts)} of {bound}", "Prove it again")
    hypotheses = (arithmetic(statement.run.dtype), *given)
    return Theorem(statement, bound, rule, hypotheses, MappingProxyType(dict(parts)), derivation, _KEY)
