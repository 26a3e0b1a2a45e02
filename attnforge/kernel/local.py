r"""How far heads of one shape are from functions of what they read, all of them at once, on cells.

A head asks its own token and constant keys. What its matrices read of the stream is $\hat y C + c_0$, up to numbers
known in size (:class:`attnforge.kernel.stream.Projection`), $\hat y$ in a box. So query, own key and own value are
Taylor models in $\hat y$ on cells of that box, what is read beside it and what the run rounds being their rests, and
the head's number is a model by the same arithmetic as in any network (:mod:`.run`). On cells (:mod:`.cover`), the local
error is
$$ D = \sup_{\hat y} |X - g(\hat y)| \le \max_{\text{cells}} \|\text{model of } X - \text{model of } g\| . $$
Cells of all heads are rows of the same arrays: each takes the numbers of its own head. A layer of gates is one
evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.expression.tree import Node
from attnforge.kernel.degrees import Degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.heads import mixture
from attnforge.kernel.models import Models
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.kernel.steps import form_name
from attnforge.kernel.stream import Projection, Sources, Stream
from attnforge.network import FEW, Head
from attnforge.outward import Machine

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

REMEDY = "Prove it as a whole, on cells"
BLOCK = 2**19  # numbers of one array held at once


@dataclass(frozen=True, eq=False)
class Reading:
    """Numbers C (h, k, r) that somebody chooses for what each matrix of heads makes of the numbers they read."""

    query: Array
    key: Array | None = None
    value: Array | None = None


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads of one shape on the numbers they read, one value each: constant keys (h, p, r), values (h, p, 1)."""

    query: Projection
    key: Projection | None
    value: Projection | None
    memory_keys: Array
    memory_values: Array
    machine: Machine

    @classmethod
    def of(
        cls, stream: Stream, sources: Sources, heads: Sequence[tuple[Head, int]], forms: Array, reading: Reading
    ) -> Heads:
        """Heads, each with the place of the value that is looked at, that read numbers U (h, m, k) of a stream."""
        _check_alike([head for head, _ in heads], forms, reading)

        def project(name: str) -> Projection | None:
            matrices, weights = [getattr(head, name) for head, _ in heads], getattr(reading, name)
            if matrices[0] is None or weights is None:
                return None
            if name == "value":
                matrices = [matrix[:, [at]] for matrix, (_, at) in zip(matrices, heads, strict=True)]
            return Projection.of(stream, sources, np.stack(matrices), forms, weights)

        query, r = project("query"), heads[0][0].query.shape[1]
        assert query is not None
        nothing = np.zeros((0, r)), np.zeros((0, 1))
        keys = [nothing[0] if head.memory_keys is None else head.memory_keys for head, _ in heads]
        values = [nothing[1] if head.memory_values is None else head.memory_values[:, [at]] for head, at in heads]
        return cls(query, project("key"), project("value"), np.stack(keys), np.stack(values), stream.machine)

    @property
    def keys(self) -> int:
        """How many each has."""
        return int(self.memory_keys.shape[1]) + (self.key is not None)

    def values_on(self, which: Numbers, y: Models) -> Models:
        """Models (N,) of the numbers of some heads as they run, on cells on which they read these (N, k)."""
        arithmetic = SoftmaxArithmetic(self.machine, self.keys, written_out=self.keys <= FEW)
        query = self._limited(_projected(self.query, which, y))
        keys = self._with_own(which, y, self.memory_keys, self.key)
        values = self._with_own(which, y, self.memory_values, self.value)
        asking = query.shaped(len(which), 1, query.shape[1])
        return mixture(asking, keys, values, arithmetic).shaped(len(which))

    def _with_own(self, which: Numbers, y: Models, memory: Array, own: Projection | None) -> Array | Models:
        """The constants (N, 1, p, r), and then what the token has of its own."""
        constant = memory[which, None]
        if own is None:
            return constant
        read = self._limited(_projected(own, which, y))
        return Models.joined([Models.constant(y.table, constant), read.shaped(read.shape[0], 1, 1, read.shape[1])], -2)

    def _limited(self, rows: Models) -> Models:
        """Nothing is known of what may leave the dtype's range."""
        return rows.only(rows.size().values <= self.machine.largest)


def _check_alike(heads: Sequence[Head], forms: Array, reading: Reading) -> None:
    first = heads[0]
    for head in heads:
        if head.query_rows.indices is not None or (head.key_rows is not None and head.key_rows.kind != "own"):
            raise CertificateError("A head asks and reads its own token", "another", REMEDY)
        alike = head.query.shape == first.query.shape and head.memory_size == first.memory_size
        if not alike or (head.key is None) != (first.key is None):
            raise CertificateError("Heads of one shape are looked at together", "other shapes", REMEDY)
    count, k = len(heads), forms.shape[-1]
    if forms.shape != (count, len(first.query), k) or not np.isfinite(forms).all():
        raise CertificateError("Every head reads k numbers of all features", f"{forms.shape}", REMEDY)
    wanted = {"query": (count, k, first.query.shape[1])}
    if first.key is not None:
        wanted |= {"key": wanted["query"], "value": (count, k, 1)}
    for name, shape in wanted.items():
        given = getattr(reading, name)
        if given is None or given.shape != shape or not np.isfinite(given).all():
            raise CertificateError(f"What is read, {name}, is of the shape {shape}", f"{np.shape(given)}", REMEDY)


def _projected(matrix: Projection, which: Numbers, y: Models) -> Models:
    """What a matrix reads (N, r), as it runs."""
    found = y.through(matrix.weights[which]) + Models.constant(y.table, matrix.constant[which])
    local = (y.size()[..., None, :] @ matrix.rates[which])[..., 0, :]
    return found.wider(matrix.rest[which] + matrix.made[which] + local)


@dataclass(frozen=True, eq=False)
class LocalError:
    """How far heads are from a function of what they read, on cells, by models of a degree."""

    heads: Heads
    function: Node
    table: Degrees

    def __call__(self, which: Numbers, low: Array, high: Array) -> Array:
        """Bounds (N,) of heads on cells (N, k)."""
        step = max(1, BLOCK // (len(self.table) * self.heads.keys * self.heads.memory_keys.shape[2]))
        parts = [slice(i, i + step) for i in range(0, len(which), step)]
        return np.concatenate([np.zeros(0), *(self._on(which[each], low[each], high[each]) for each in parts)])

    def _on(self, which: Numbers, low: Array, high: Array) -> Array:
        with np.errstate(all="ignore"):
            y = Models.variables(self.table, low, high)
            wanted = formula_models(self.function, {form_name(i): y[:, i] for i in range(low.shape[1])})
            return np.asarray((self.heads.values_on(which, y) - wanted).size().values)
