r"""The theorem about a program's network: by induction over layers, every register of every token is right.

The statement proved, for every sequence of 1 to n tokens over the vocabulary and every token of it: each feature of the
result of the run is within ``bound`` of what the program says. It rests on the arrays of the network as they are in the
dtype, and on nothing that is said of them: the registers say where to look, and whatever weights are beside what a
register needs is counted against it. Inputs are exact: codes of tokens and positions, and integers as the dtype has
them.
"""

from __future__ import annotations

import numpy as np

from attnforge.certification.certificate import arithmetic
from attnforge.certification.program_certificate import MARGIN, ProgramCertificate, RegisterBound
from attnforge.certification.programs.directions import Directions, Heads
from attnforge.certification.programs.held import Held, State
from attnforge.certification.programs.lookup import Found, cells_found, number_of, pairs_found
from attnforge.certification.programs.scores import Scores, check_rows
from attnforge.certification.programs.selection import prove_selection
from attnforge.certification.programs.writing import (
    Written,
    after_writing,
    count_written,
    expected,
    linear_error,
    lookup_written,
    mean_written,
    written_by_mistake,
)
from attnforge.certification.stream import Noise
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network, Term, digest, rounded
from attnforge.outward import Balls, Machine, Up, machine, round_to
from attnforge.targets.programs.forms import Cell
from attnforge.targets.programs.language import (
    Comparison,
    LabelAggregate,
    Labels,
    LabelTable,
    NumberAggregate,
    Numbers,
    NumberTable,
    Square,
    Width,
)
from attnforge.targets.programs.registers import ONE, Key, Layout, Register

REMEDY = "Build the network anew"


def certify_program(network: Network, layout: Layout, dtype: str) -> ProgramCertificate:
    """Prove that the network computes the program on every sequence, or raise CertificateError saying where not."""
    running, kind = rounded(network, dtype), machine(dtype)
    try:
        state, result = _by_columns(running, layout, kind)
    except (CertificateError, RefusalError) as reason:
        if _has_columns(running, layout):
            raise
        try:
            result = _by_directions(running, layout, kind)
        except (CertificateError, RefusalError):
            raise reason from None
        return _certificate(network, layout, dtype, result, ())
    bounds = tuple(_bound(state[key]) for key in layout.registers)
    return _certificate(network, layout, dtype, result, bounds)


def _by_columns(running: Network, layout: Layout, kind: Machine) -> tuple[State, tuple[float, float]]:
    """The registers after all layers, each in features of its own, and the error of the result."""
    embedding, attention, readout = _layers(running, layout)
    state = _embedded(embedding, layout, kind)
    for depth, layer in enumerate(attention, start=1):
        state = _after([(head, {}) for head in layer.heads], layout, depth, state, kind)
    weights, constant = _map(readout, (layout.features, layout.result.size))
    return state, _result(weights, constant, layout, state, kind)


def _by_directions(running: Network, layout: Layout, kind: Machine) -> tuple[float, float]:
    """The error of the result where registers are directions of the stream, whatever its basis."""
    state = _embedded(_plain_embedding(layout), layout, kind)
    stream = Directions(running, layout, state, kind)
    for depth in range(1, layout.depth + 1):
        state = _after(stream.heads(), layout, depth, state, kind)
        stream.follow(state)
    weights, off = stream.read_out()
    leakage, whole = _result(weights, np.zeros(weights.shape[1]), layout, state, kind)
    return leakage, float(Up.of(whole) + off.most())


def _has_columns(network: Network, layout: Layout) -> bool:
    """Whether the first map takes inputs to features of their own, as many as registers have: weights may be off."""
    term = network.layers[0].terms[0] if isinstance(network.layers[0], Linear) else None
    plain = _plain_embedding(layout).terms[0].map
    if term is None or term.map is None or plain is None or term.map.shape != plain.shape:
        return False
    heads = sum(len(layout.written(depth)) for depth in range(1, layout.depth + 1))
    return not np.any(term.map[plain == 0]) and len(network.heads) == heads


def _plain_embedding(layout: Layout) -> Linear:
    """The first map of a network that has features for registers."""
    weights = np.zeros((sum(register.size for register in layout.inputs), layout.features))
    start = 0
    for each in layout.inputs:
        weights[start : start + each.size, layout.registers[each.key].features] = np.eye(each.size)
        start += each.size
    return Linear((Term(weights),), np.eye(1, layout.features))


def _layers(network: Network, layout: Layout) -> tuple[Linear, list[Attention], Linear]:
    first, *middle, last = network.layers
    attention = [layer for layer in middle if isinstance(layer, Attention) and layer.residual]
    fits = isinstance(first, Linear) and isinstance(last, Linear) and len(attention) == len(middle) == layout.depth
    width = sum(register.size for register in layout.inputs)
    if not fits or network.context is not None or network.tokens is not None or network.features != width:
        got = f"{len(network.layers)} layers"
        wanted = f"A program's network: an embedding, {layout.depth} layers of attention with residual, a read-out"
        raise CertificateError(wanted, got, REMEDY)
    assert isinstance(first, Linear)
    assert isinstance(last, Linear)
    return first, attention, last


def _map(layer: Layer, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of a linear map of tokens, one by one, and its constant."""
    assert isinstance(layer, Linear)
    term = layer.terms[0]
    plain = len(layer.terms) == 1 and term.mix is None and term.map is not None and term.map.shape == shape
    added = np.zeros((1, shape[1])) if layer.constant is None else layer.constant
    if not plain or term.map is None or added.shape != (1, shape[1]):
        raise CertificateError("Tokens are mapped one by one, all alike", f"another map than {shape}", REMEDY)
    return term.map, added[0]


def _inputs(layout: Layout, kind: Machine) -> State:
    """What a run is given: codes, and integers as the dtype has them."""
    held: dict[Key, Held] = {}
    start = 0
    for each in layout.inputs:
        register = Register(each.key, start, each.size, 0, each.labels, each.lower, each.upper)
        held[each.key] = Held(register, True, relative=0.0 if each.labels is not None else _off(each, kind))
        start += each.size
    return State(held)


def _off(register: Register, kind: Machine) -> float:
    """The largest relative error of positions, or of their squares, as the dtype has them."""
    squared = isinstance(register.key[0], Square)
    largest = 1.0 + np.ceil(np.sqrt(float(register.upper))) if squared else max(1.0, float(register.upper))
    positions = np.arange(1.0, 1.0 + largest) ** (2 if squared else 1)
    off = np.abs(round_to(positions, kind.name) - positions) / positions
    return float(Up.of(off).most() * (1 + 2.0**-50))


def _embedded(layer: Linear, layout: Layout, kind: Machine) -> State:
    inputs, width = _inputs(layout, kind), sum(register.size for register in layout.inputs)
    weights, constant = _map(layer, (width, layout.features))
    wanted, added = _map(_plain_embedding(layout), weights.shape)
    error = linear_error(inputs, weights, Balls.exact(wanted), kind, constant)
    error = error + Up.of(Balls.exact(constant) - Balls.exact(added))
    held = {}
    for key, register in layout.registers.items():
        relative = inputs[key].relative if register.layer == 0 and key != ONE else 0.0
        off = error[register.features].most()
        if relative and _is_only_copied(weights, inputs[key], register):
            off = Up.of(0.0)  # it holds what it was given, whose error is relative
        held[key] = Held(register, register.layer == 0, rounding=float(off), relative=relative)
    return State(held)


def _is_only_copied(weights: np.ndarray, given: Held, register: Register) -> bool:
    column = weights[:, register.start]
    return bool(column[given.register.start] == 1.0 and np.count_nonzero(column) == 1)


def _after(heads: Heads, layout: Layout, depth: int, state: State, kind: Machine) -> State:
    registers = layout.written(depth)
    if len(heads) != len(registers):
        got = f"{len(heads)} heads in layer {depth}"
        raise CertificateError(f"One head a register, {len(registers)} here", got, REMEDY)
    scores = [_scores(*head, layout, state, kind) for head in heads]
    written = {
        register: _written(each, layout, register) for each, register in zip(scores, registers, strict=True)
    }  # fmt: skip
    return after_writing(state, written, written_by_mistake(list(zip(scores, registers, strict=True))))


def _scores(head: Head, noise: Noise, layout: Layout, state: State, kind: Machine) -> Scores:
    tokens = 0 if head.key_rows is None else layout.typed.max_length
    return Scores(head, state, kind, tokens + head.memory_size, noise)


def _written(scores: Scores, layout: Layout, register: Register) -> Written:
    typed, (node, part) = layout.typed, register.key
    if isinstance(node, LabelAggregate | NumberAggregate) or part == "reciprocal":
        return _selected(scores, layout, register)
    check_rows(scores.head, register.name, over_tokens=False)
    scores.check_range()
    found = _lookup(scores, layout, register)
    if isinstance(node, Width | Comparison | Square | LabelTable | NumberTable):
        return lookup_written(scores, register, found)
    raise CertificateError("Every register is one of the program's", f"{register.name} of {typed!r:.40}", REMEDY)


def _selected(scores: Scores, layout: Layout, register: Register) -> Written:
    typed, node = layout.typed, register.key[0]
    check_rows(scores.head, register.name, over_tokens=True)
    assert isinstance(node, LabelAggregate | NumberAggregate | Width)
    with_constant = isinstance(node, Width) or typed.may_be_empty(node.selector)
    if scores.head.memory_size != int(with_constant):
        got = f"{scores.head.memory_size} constant keys"
        raise CertificateError(f"{register.name}: as many constant keys as it needs", got, REMEDY)
    found = prove_selection(scores, typed, node.selector, with_constant)
    if isinstance(node, Width):
        return count_written(scores, register, found)
    return mean_written(scores, layout, node, register, found)


def _lookup(scores: Scores, layout: Layout, register: Register) -> list[Found]:
    typed, node = layout.typed, register.key[0]
    match node:
        case Width():
            number: dict[Key, Balls] = {(node, "reciprocal"): Balls.exact(np.ones(1))}
            return list(cells_found(scores, number, Balls.exact(0.0), typed.cells(node)))
        case Comparison(number=argument) | Square(number=argument):
            return _cells(scores, layout, argument, typed.cells(node))
        case LabelTable(_, (Numbers() as argument,)) | NumberTable(_, (Numbers() as argument,)):
            return _cells(scores, layout, argument, typed.cells(node))
        case LabelTable() | NumberTable():
            return list(pairs_found(scores, typed, node))
        case _:
            raise CertificateError("Every register is one of the program's", register.name, REMEDY)


def _cells(scores: Scores, layout: Layout, argument: Numbers, cells: list[Cell]) -> list[Found]:
    return list(cells_found(scores, *number_of(layout.typed, layout.typed.form(argument)), cells))


def _bound(held: Held) -> RegisterBound:
    rest = Up.of(held.rounding) + held.nominal * held.relative
    return RegisterBound(held.register.name, held.register.layer, held.leakage, float(rest))


def _result(
    weights: np.ndarray, constant: np.ndarray, layout: Layout, state: State, kind: Machine
) -> tuple[float, float]:  # fmt: skip
    """Leakage and rounding of the result's features."""
    program, result = layout.typed.program, layout.result
    wanted = expected(layout, program, result)
    error = linear_error(state, weights, wanted, kind, constant) + Up.of(constant)
    leakage = Up.zeros(result.size)
    for each in state:
        rows = weights[each.register.features]
        if each.leakage and rows.any():
            leakage = leakage + Up.of(rows).sum(0) * each.leakage
    return float(leakage.most()), float(error.most())


def _certificate(
    network: Network, layout: Layout, dtype: str, found: tuple[float, float], bounds: tuple[RegisterBound, ...]
) -> ProgramCertificate:
    leakage, whole = found
    program = layout.typed.program
    is_exact = isinstance(program, Labels) or layout.typed.grid(program).is_integer
    if not whole < (MARGIN if is_exact else np.inf):
        got = f"an error up to {whole:.3g}"
        if bounds:
            worst = max(bounds, key=lambda each: each.error)
            got += f" (the largest of a register: {worst.error:.3g} of {worst.name})"
        remedy = "Use a smaller max_length, or a wider dtype"
        wanted = f"Results must be proved within {MARGIN:g} of the program's in {dtype}"
        raise CertificateError(wanted, got, remedy)
    rest = float(np.nextafter(whole - leakage, np.inf))
    parts = {"leakage": leakage, "rounding": rest}
    bound = float(Up.of(leakage) + rest)
    typed = layout.typed
    return ProgramCertificate(
        "proved",
        bound,
        parts,
        typed.max_length,
        len(typed.vocabulary),
        dtype,
        digest(network),
        is_exact,
        bounds,
        (arithmetic(dtype),),
    )
