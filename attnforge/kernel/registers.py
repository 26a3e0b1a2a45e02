r"""The rule registers: what a run computes in place of the registers it claims, and how errors compose.

Let $x^*$ be the exact registers of a program (:mod:`.steps`), X the numbers of a run that stand for them, and $e = X -
x^*$. A block's heads read $\hat y_i$ in place of $y_i = W_i^T x^* + t_i$ (:mod:`.stream`), and are near a function of
what they read (:mod:`.local`), g continued beyond its ends,
$$ |\hat y_i - W_i^T X - t_i| \le \rho_i, \qquad |X - g(\hat y)| \le D . $$
So with $p_i = \hat y_i - y_i$ and slopes $s_i$ of g on a box that holds y and $\hat y$ (:mod:`.slopes`)
$$ p_i = \sum_b W_{ib}^T e_b + \rho_i, \qquad e = \sum_i s_i p_i + d, \qquad |d| \le D . $$
Where slopes are not bounded, the modulus of g stands for $\sum_i s_i p_i$, in d. Ranges, over which D and the slopes
are taken, are those of the exact registers, wider by what e and p may be: first come those of a block's forms, then D,
then the block's own error. Exact ranges are the smaller of two enclosures, of intervals, and of values at the middle of
a cell with the distance from them, which obeys the same equation without $\rho$ and d: its noise is the radius of the
cell. So errors have two columns, ``MOVED`` and ``ERROR``. All of that is about the program continued beyond the ends of
its functions, at every input. That exact arguments lie where a function can be taken is used for D alone, which so is
proved for the inputs that statements are about.

**Adjoints.** Let v be any matrices of floats, one a block. The error of forms p depends on a block b by $A_b e_b$,
where $A_b$ is what is read of it directly and by way of later blocks c. Write $A_c = v_c + (A_c - v_c)$ and $s_i = m_i
+ (s_i - m_i)$ with any floats m:
$$ |p| \le |\rho| + \sum_b |v_b| \Bigl(\sum_i |m_i||\rho_i| + |d_b|\Bigr) + |v_b|\,|\kappa_b|
   + |A_b - v_b|\,|e_b|, \qquad A_i = \sum_c (v_c m_c) W_{ic}^T, \quad |\kappa_b| \le \sum_i |s_i - m_i||p_i| . $$
*Nothing is asked of v and m*: bad ones give a large bound. Here m are middles of slopes, which differ from cell to
cell, and v what float64 makes of A, so that $A - v$ are roundings and what is not known of W: each is charged where it
arises, against bounds of $e_b$ and $p_i$ that are had already, and radii do not grow along a chain. What is unknown,
$\kappa_b$ and $e_b$, is bounded entry by entry and in the Euclidean norm, and reaches the forms by the smaller of
$|v||\kappa|$ and $\|v_j\|_2\|\kappa\|_2$, rows j; the norm of $\kappa$ by the same sums for $r v_b$, r the radii of
slopes, with $\|r v_b\|_2$. Sums over all ways of cutting a chain of layers into blocks with and without $\kappa$ are
those of Combettes and Pesquet (2020), Lipschitz certificates for layered networks; plain products of $|W|$ or of
$\|W\|_2$ are larger.

**Steps.** Local errors are proved once, for ranges that hold on the whole domain, by way of a cover of it. On cells of
another cover the same errors are composed with the slopes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.cover import Cover
from attnforge.kernel.degrees import degrees
from attnforge.kernel.local import Heads, LocalError, Reading
from attnforge.kernel.slopes import moved, ranges, slopes
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.kernel.steps import Block, Forms, Steps
from attnforge.kernel.stream import Projection, Sources, Stream
from attnforge.network import FEW, Attention, Head, Linear, Network
from attnforge.outward import Balls, Machine, Up, spectral_norm

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

MOVED, ERROR, COLUMNS = 0, 1, 2
REMEDY = "Prove it as a whole, on cells"


@dataclass(frozen=True, eq=False)
class FormErrors:
    """Of linear forms (..., m): their local errors (..., m, P), and in all; adjoints (..., m, m_b) of blocks."""

    weights: Mapping[int, Balls]
    local: Up
    adjoints: Mapping[int, Balls]
    error: Up


@dataclass(frozen=True, eq=False)
class _Errors:
    """Of a block: what its forms read, middles of slopes (..., m, k), errors that enter, and bounds of all of it.

    ``local`` (..., m, P) enters for certain, ``kinks`` (..., m, P) of Euclidean norms ``kinked`` (..., P) by slopes.
    """

    weights: tuple[Mapping[int, Balls], ...]
    middle: Array
    local: Up
    kinks: Up
    kinked: Up
    error: Up
    length: Up


class Errors:
    """Blocks in the order they are computed, each with all that is known of its error.

    >>> errors = Errors(Up.of([[0.0], [0.125]]))
    >>> forms = errors.read({0: Balls.exact([[1.0], [-2.0]])}, Up.of([[0.5]]))
    >>> errors.write([forms], Balls(np.array([[0.5]]), np.array([[0.5]])), Up.of([[0.0]]))
    >>> round(float(errors.of(1).values[0, 0]), 9)
    0.75
    """

    def __init__(self, local: Up) -> None:
        none = local * 0.0
        self._blocks = [_Errors((), np.zeros(0), local, none, none.sum(-2), local, local.norm(-2))]

    def of(self, block: int) -> Up:
        """How far (..., m, P) the run's registers of a block may be from the exact ones."""
        return self._blocks[block].error

    def read(self, weights: Mapping[int, Balls], local: Up) -> FormErrors:
        """Linear forms of blocks, with weights (m_b, m) each, read up to ``local`` (..., m, P)."""
        adjoints = self._adjoints({block: _transposed(weight) for block, weight in weights.items()})
        return FormErrors(weights, local, adjoints, self._carried(adjoints, local))

    def write(self, forms: Sequence[FormErrors], slope: Balls, local: Up) -> None:
        """A block that is a function of forms with these slopes (..., m, k), off by ``local`` (..., m, P) beside."""
        kinks, entered, error = local * 0.0, local, local
        kinked = kinks.norm(-2)
        for i, form in enumerate(forms):
            mid, rad = slope.mid[..., i], slope.rad[..., i]
            here = _column(Up.of(rad)) * form.error
            length = here.norm(-2)
            kinks, kinked = kinks + here, kinked + (length.least(self._length(form, rad)) if rad.any() else length)
            entered = entered + _column(Up.of(mid)) * form.local
            error = error + _column(Up.of(slope[..., i])) * form.error
        weights = tuple(form.weights for form in forms)
        self._blocks.append(_Errors(weights, slope.mid, entered, kinks, kinked, error, error.norm(-2)))

    def _adjoints(self, adjoints: dict[int, Balls]) -> dict[int, Balls]:
        """Of all blocks that these lead back to: the middles v pass on, the radii stay."""
        for number in range(max(adjoints, default=0), 0, -1):
            if number not in adjoints:
                continue
            block, v = self._blocks[number], Balls.exact(adjoints[number].mid)
            for i, weights in enumerate(block.weights):
                through = v * Balls.exact(block.middle[..., None, :, i])
                for read, weight in weights.items():
                    here = through @ _transposed(weight)
                    adjoints[read] = adjoints[read] + here if read in adjoints else here
        return adjoints

    def _carried(self, adjoints: Mapping[int, Balls], local: Up) -> Up:
        """What all blocks do to forms with these adjoints: entry by entry, and by lengths."""
        for number, adjoint in adjoints.items():
            block, sizes, residual = self._blocks[number], Up.of(adjoint.mid), Up.of(adjoint.rad)
            local = local + sizes @ block.local + _reached(sizes, block.kinks, block.kinked)
            local = local + _reached(residual, block.error, block.length)
        return local

    def _length(self, forms: FormErrors, radius: Array) -> Up:
        """The Euclidean norms (..., P) of forms weighted by the radii (..., m) of their slopes."""
        total = (_column(Up.of(radius)) * forms.local).norm(-2)
        for number, adjoint in forms.adjoints.items():
            block, weighted = self._blocks[number], Balls.exact(radius[..., :, None]) * adjoint
            sizes, norm, rest = Up.of(weighted.mid), _norm(weighted.mid)[..., None], weighted.rad
            total = total + (sizes @ block.local).norm(-2).least(norm * block.local.norm(-2))
            total = total + (sizes @ block.kinks).norm(-2).least(norm * block.kinked)
            total = total + _reached(Up.of(rest), block.error, block.length).norm(-2)
        return total


def _norm(matrix: Array) -> Up:
    """The spectral norm; of one row or column that of Frobenius."""
    return Up.of(matrix).norm().norm() if min(matrix.shape[-2:]) == 1 else spectral_norm(Balls.exact(matrix))


def _reached(sizes: Up, entries: Up, lengths: Up) -> Up:
    """What vectors (m_b, P), bounded entry by entry and in their lengths (P,), do to forms of these sizes (m, m_b)."""
    return (sizes @ entries).least(_column(sizes.norm(-1)) * lengths[..., None, :])


def _column(numbers: Up) -> Up:
    return numbers[..., None]


def _transposed(matrix: Balls) -> Balls:
    return Balls(np.swapaxes(matrix.mid, -1, -2), np.swapaxes(matrix.rad, -1, -2))


@dataclass(frozen=True, eq=False)
class Range:
    """Where exact numbers (C, ...) are on cells, and at the middles of the cells."""

    low: Array
    high: Array
    middle: Balls

    def within(self, low: Array, high: Array) -> Range:
        """Known to lie between these, too."""
        below, above = np.maximum(self.low, low), np.minimum(self.high, high)
        middle = self.middle.mid - self.middle.rad, self.middle.mid + self.middle.rad
        ends = np.nextafter(middle[0], -np.inf), np.nextafter(middle[1], np.inf)
        return Range(below, above, _between(*(np.clip(end, below, above) for end in ends)))

    def near(self, distance: Up) -> Range:
        """Known to be so close to the middle."""
        reach = (Up.of(self.middle.rad) + distance).values
        return self.within(
            np.nextafter(self.middle.mid - reach, -np.inf), np.nextafter(self.middle.mid + reach, np.inf)
        )


@dataclass(frozen=True, eq=False)
class Local:
    """What holds of a block on the whole domain: local errors of forms (k, m) and of heads (m,), and exact ranges."""

    forms: Up
    heads: Up
    form_ends: tuple[Array, Array]
    ends: tuple[Array, Array]


class OnCells:
    """Registers and errors on cells (C, inputs) of the domain, block by block."""

    def __init__(self, steps: Steps, low: Array, high: Array, cast: Up) -> None:
        self.steps = steps
        box = Balls.between(low, high)
        noise = Up(np.stack([box.rad, np.broadcast_to(cast.values, low.shape)], axis=-1))
        self.errors, self.registers = Errors(noise), [Range(low, high, Balls.exact(box.mid))]

    def read(self, forms: Forms, local: Up) -> tuple[FormErrors, Range]:
        """Forms (C, m), which heads read up to ``local`` (m,), and where they are."""
        cells = len(self.registers[0].low)
        columns = np.zeros((cells, forms.count, COLUMNS))
        columns[..., ERROR] = local.values
        found = self.errors.read(forms.weights, Up(columns))
        whole, middle = forms.offset, forms.offset
        for block, weights in forms.weights.items():
            register = self.registers[block]
            whole = (Balls.between(register.low, register.high)[:, None] @ weights)[:, 0] + whole
            middle = (register.middle[:, None] @ weights)[:, 0] + middle
        shape = np.zeros((cells, forms.count))
        whole, middle = Balls(shape + whole.mid, shape + whole.rad), Balls(shape + middle.mid, shape + middle.rad)
        low, high = np.nextafter(whole.mid - whole.rad, -np.inf), np.nextafter(whole.mid + whole.rad, np.inf)
        return found, Range(low, high, middle).near(found.error[..., MOVED])

    def forms(self, block: Block, local: Up) -> tuple[list[FormErrors], Range]:
        """The forms of a block, side by side (C, m, k)."""
        found = [self.read(forms, local[i]) for i, forms in enumerate(block.forms)]
        low, high = (np.stack([getattr(each, end) for _, each in found], axis=-1) for end in ("low", "high"))
        middle = [np.stack([getattr(each.middle, end) for _, each in found], axis=-1) for end in ("mid", "rad")]
        return [errors for errors, _ in found], Range(low, high, Balls(*middle))

    def write(self, block: Block, forms: list[FormErrors], inside: Range, local: Up) -> None:
        """The registers of a block whose heads are off by ``local`` (m,)."""
        low, high = _wider(forms, inside)
        slope, more = _slopes(block, low, high, forms)
        entered = more + Up(np.stack([np.zeros(local.shape), local.values], axis=-1))
        self.errors.write(forms, slope, entered)
        middle = ranges(block.extended, *_ends(inside.middle))
        found = Range(*ranges(block.extended, inside.low, inside.high), _between(*middle))
        self.registers.append(found.near(self.errors.of(-1)[..., MOVED]))


def _wider(forms: Sequence[FormErrors], inside: Range) -> tuple[Array, Array]:
    """Where forms (C, m, k) are in the exact program and in a run."""
    off = np.stack([form.error.values[..., ERROR] for form in forms], axis=-1)
    return np.nextafter(inside.low - off, -np.inf), np.nextafter(inside.high + off, np.inf)


def _clipped(inside: Range, low: Array, high: Array) -> Range:
    """Between these ends; where there is nothing between them, at one of them."""
    return replace(inside, low=np.clip(inside.low, low, high), high=np.clip(inside.high, low, high))


def _ends(balls: Balls) -> tuple[Array, Array]:
    return np.nextafter(balls.mid - balls.rad, -np.inf), np.nextafter(balls.mid + balls.rad, np.inf)


def _between(low: Array, high: Array) -> Balls:
    """Of numbers that may be unknown."""
    known = np.isfinite(low) & np.isfinite(high)
    found = Balls.between(np.where(known, low, 0.0), np.where(known, high, 0.0))
    return Balls(found.mid, np.where(known, found.rad, np.inf))


def _slopes(block: Block, low: Array, high: Array, forms: Sequence[FormErrors]) -> tuple[Balls, Up]:
    """Slopes (C, m, k), zero where they are not bounded: then errors (C, m, P) are what the function may move by."""
    below, above = slopes(block.extended, low, high)
    known = np.asarray(np.all(np.isfinite(below) & np.isfinite(above), axis=-1))
    below, above = (np.where(known[..., None], end, 0.0) for end in (below, above))
    found = Balls.between(below, above)
    more = np.zeros((*known.shape, COLUMNS))
    for column in (MOVED, ERROR):
        off = np.stack([form.error.values[..., column] for form in forms], axis=-1)[~known]
        more[~known, column] = moved(block.extended, low[~known], high[~known], off)
    return Balls(found.mid, np.where(below == above, 0.0, found.rad)), Up(more)


@dataclass(frozen=True, eq=False)
class Group:
    """Registers of a block, by number, whose heads are looked at together: what they read, and the degree of models."""

    registers: Numbers
    reading: Reading
    degree: int


class Registers:
    """A network as a run of a program: blocks are proved one after the other, then the outputs.

    ``places`` say for every layer of attention which source each number is that its heads write, one head after the
    other: a register of the program, counted behind the constant and the inputs, or a number from ``steps.sources`` on,
    of what is no register. ``cover`` are cells that cover the domain, on which ranges are taken.
    """

    def __init__(
        self, network: Network, machine: Machine, steps: Steps, ends: tuple[Array, Array], places: Sequence[Numbers],
        cover: Cover,
    ) -> None:  # fmt: skip
        self.steps, self._machine, self._ends = steps, machine, ends
        self._heads, self._layers = _placed(network, steps, places), list(network.layers)
        self._places = list(places)
        self._locals: list[Local] = []
        self._cast = machine.cast(Up.between(*ends))
        self._on = OnCells(steps, *_covering(cover, ends), self._cast)
        count = steps.sources + max((len(each) for each in places), default=0) * len(places)
        low, high = np.full(count, -np.inf), np.full(count, np.inf)
        low[0] = high[0] = 1.0
        first = 1 + steps.inputs
        low[1:first] = np.nextafter(ends[0] - self._cast.values, -np.inf)
        high[1:first] = np.nextafter(ends[1] + self._cast.values, np.inf)
        self._sources = Sources(low, high)
        self._stream, self._depth = Stream.of_inputs(steps.inputs, machine), 0
        self._open: tuple[list[FormErrors], Range, Up, list[tuple[Numbers, Cover]]] | None = None

    @property
    def stream(self) -> Stream:
        """Before the layer whose heads are proved next."""
        return self._stream

    @property
    def sources(self) -> Sources:
        """All numbers of a run that are known so far."""
        return self._sources

    def heads(self, block: int) -> list[tuple[Head, int]]:
        """Those that write the registers of a block, with the place among the values of each."""
        first = self.steps.first(block)
        return [self._heads[first + j][1:] for j in range(self.steps.widths[block])]

    def proceed(self) -> int:
        """To the layer of the next block; its number, or that behind the last one at the end of the network."""
        block = len(self._locals) + 1
        last = block == len(self.steps.widths)
        depths = {self._heads[self.steps.first(block) + j][0] for j in range(0 if last else self.steps.widths[block])}
        if len(depths) > 1 or min(depths, default=self._depth) < self._depth:
            raise CertificateError("A block is written by one layer, blocks in the order of layers", "others", REMEDY)
        while self._layers and (last or self._depth < min(depths) or isinstance(self._layers[0], Linear)):
            self._follow(self._layers.pop(0))
        return block

    def _follow(self, layer: object) -> None:
        """To the stream behind a layer."""
        if isinstance(layer, Linear):
            self._stream = self._stream.mapped(layer, self._sources)
            return
        if not isinstance(layer, Attention):
            raise CertificateError("A stream is added to by attention", type(layer).__name__, REMEDY)
        rows, at = self._places[self._depth], 0
        for head in layer.heads:
            mine = rows[at : at + len(head.output)]
            for j in np.flatnonzero(mine >= self.steps.sources):
                self._know(mine[j : j + 1], *_of_no_register(head, int(j), self._stream, self._sources))
            at += len(head.output)
        outputs = np.vstack([head.output for head in layer.heads])
        self._stream = self._stream.attended(rows, outputs, self._sources, layer.residual)
        self._depth += 1

    def _know(self, rows: Numbers, low: Array, high: Array) -> None:
        ends = self._sources.low.copy(), self._sources.high.copy()
        ends[0][rows], ends[1][rows] = low, high
        self._sources = Sources(*ends)

    def open(self, groups: Sequence[Group], forms: Array) -> list[Cover]:
        """The heads of the next block on what they read, U (m registers, features, k): covers of it, to be cut."""
        number = self.proceed()
        block, heads = self.steps.blocks[number - 1], self.heads(number)
        if sorted(j for group in groups for j in group.registers.tolist()) != list(range(block.count)):
            raise CertificateError("Every register of a block is in one group", "others", REMEDY)
        errors = Up(np.stack([self._form_error(each, forms[..., i]) for i, each in enumerate(block.forms)]))
        read, inside = self._on.forms(block, errors)
        low, high = _wider(read, _clipped(inside, *block.natural))
        if not (np.isfinite(low) & np.isfinite(high)).all():
            raise RefusalError("What a register reads is bounded", f"block {number}", "Shrink the domain, or cut it")
        covers = []
        for group in groups:
            some = [heads[j] for j in group.registers]
            mine = Heads.of(self._stream, self._sources, some, forms[group.registers], group.reading)
            error = LocalError(mine, block.extended, degrees(len(block.forms), group.degree))
            box = low[:, group.registers].min(axis=0), high[:, group.registers].max(axis=0)
            covers.append((group.registers, Cover(*box, error)))
        self._open = read, inside, errors, covers
        return [cover for _, cover in covers]

    def _form_error(self, forms: Forms, reading: Array) -> Array:
        dense = forms.dense(self.steps.widths)
        missing = len(self._sources.low) - len(dense.mid)
        wanted = Balls(np.pad(dense.mid, ((0, missing), (0, 0))), np.pad(dense.rad, ((0, missing), (0, 0))))
        return self._stream.forms_error(reading.T, wanted, self._sources).values

    def close(self) -> Up:
        """The block that was opened, by the bounds on its covers; its local errors (m,)."""
        if self._open is None:
            raise CertificateError("A block is opened before it is closed", "none", REMEDY)
        read, inside, errors, covers = self._open
        number, self._open = len(self._locals) + 1, None
        block, local = self.steps.blocks[number - 1], np.full(self.steps.widths[number], np.inf)
        for registers, cover in covers:
            local[registers] = cover.largest().values
        if not np.isfinite(local).all():
            raise RefusalError("Heads are near the functions they claim", f"block {number}", REMEDY)
        self._on.write(block, read, inside, Up(local))
        found, off = self._on.registers[-1], self._on.errors.of(-1)[..., ERROR].values
        ends = np.nextafter(found.low - off, -np.inf).min(axis=0), np.nextafter(found.high + off, np.inf).max(axis=0)
        if not all(np.isfinite(end).all() for end in ends):
            raise RefusalError("A register is bounded", f"block {number}", "Shrink the domain, or cut it")
        first = self.steps.first(number)
        self._know(np.arange(first, first + block.count), *ends)
        hulls = [(each.low.min(axis=0), each.high.max(axis=0)) for each in (inside, found)]
        self._locals.append(Local(errors, Up(local), *hulls))
        return Up(local)

    def outputs(self) -> Cover:
        """The whole domain, as a cover to be cut, with bounds of the largest error of an output on its cells."""
        if len(self._locals) != len(self.steps.blocks):
            raise CertificateError("All blocks are proved before the outputs", f"{len(self._locals)}", REMEDY)
        self.proceed()
        width = self._stream.directions.shape[1]
        if width != self.steps.outputs.count:
            raise CertificateError("The network writes the outputs of the program", f"{width}", REMEDY)
        local = Up(self._form_error(self.steps.outputs, np.eye(width).T))

        def evaluate(_: Numbers, low: Array, high: Array) -> Array:
            on = OnCells(self.steps, low, high, self._cast)
            for block, known in zip(self.steps.blocks, self._locals, strict=True):
                read, inside = on.forms(block, known.forms)
                on.write(block, read, inside.within(*known.form_ends), known.heads)
                on.registers[-1] = on.registers[-1].within(*known.ends)
            return np.asarray(on.read(self.steps.outputs, local)[0].error.values[..., ERROR].max(axis=-1))

        return Cover(self._ends[0][None], self._ends[1][None], evaluate)


def _covering(cover: Cover, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """Cells of a cover of this domain."""
    which, low, high = cover.cells
    whole = np.array_equal(low.min(axis=0), ends[0]) and np.array_equal(high.max(axis=0), ends[1])
    if which.any() or not whole:
        raise CertificateError("Ranges are taken on a cover of the domain", "another", REMEDY)
    return low, high


def _placed(
    network: Network, steps: Steps, places: Sequence[Numbers]
) -> dict[int, tuple[int, Head, int]]:  # fmt: skip
    """The depth, the head and the place among its values of every number that is written."""
    attention = [layer for layer in network.layers if isinstance(layer, Attention)]
    found: dict[int, tuple[int, Head, int]] = {}
    written = [[(head, j) for head in layer.heads for j in range(len(head.output))] for layer in attention]
    if network.context is not None or list(map(len, written)) != [len(each) for each in places]:
        raise CertificateError("Every number that heads write has its place", "others", REMEDY)
    for depth, (layer, rows) in enumerate(zip(written, places, strict=True)):
        found |= {int(row): (depth, *each) for row, each in zip(rows, layer, strict=True)}
    count = sum(map(len, written))
    registers = set(range(1 + steps.inputs, steps.sources))
    most = steps.sources + max((len(each) for each in places), default=0) * len(places)
    if (
        len(found) != count
        or not registers <= set(found)
        or not set(found) <= registers | set(range(steps.sources, most))
    ):
        raise CertificateError("Every register is written by one head", "others", REMEDY)
    return found


def _of_no_register(head: Head, at: int, stream: Stream, sources: Sources) -> tuple[Array, Array]:
    """Ends (1,) of what a head writes: its mean is no larger than its values."""
    if head.query_rows.indices is not None or (head.key_rows is not None and head.key_rows.kind != "own"):
        raise CertificateError("A head asks and reads its own token", "another", REMEDY)
    size = Up.zeros(1)
    if head.memory_values is not None:
        size = size.larger(Up.of(head.memory_values[:, at]).most())
    if head.value is not None:
        matrix, m = head.value[None, :, [at]], len(head.value)
        read = Projection.of(stream, sources, matrix, np.zeros((1, m, 0)), np.zeros((1, 0, 1)))
        size = size.larger(Up.of(read.constant[0]) + read.rest[0] + read.made[0])
    keys = head.memory_size + (head.key is not None)
    arithmetic = SoftmaxArithmetic(stream.machine, keys, written_out=keys <= FEW)
    size = size + size * arithmetic.mean() + arithmetic.lost(size)
    return -size.values, size.values
