"""From a program to a network with a proof: type it, lay out its registers, build, certify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnforge.certification.program_certificate import certify_program
from attnforge.errors import CertificateError, RefusalError, TargetError
from attnforge.outward import DType, dtype_name
from attnforge.programs.library import Entry
from attnforge.programs.running import ProgramNetwork
from attnforge.targets.programs.causal import causal as made_causal
from attnforge.targets.programs.graph import check_vocabulary
from attnforge.targets.programs.language import Labels, Numbers
from attnforge.targets.programs.registers import Layout
from attnforge.targets.programs.tables import tabulated
from attnforge.targets.programs.typing import Typed
from attnforge.theorems.programs.build import build

LIMIT = 2048  # lengths up to which the largest proved one is looked for
LONGEST = 2**24  # tokens: a proof looks at every position


def compile(
    program: Labels | Numbers | Entry,
    vocabulary: Sequence[Any] | None = None,
    max_length: int | None = None,
    dtype: DType = "float64",
    *,
    causal: bool = False,
) -> ProgramNetwork:
    """Compile a program into softmax attention, and prove it for every sequence of 1 to ``max_length`` tokens.

    Args:
        program: the value that it computes, or an entry of the library, which has a vocabulary and a length.
        vocabulary: the tokens, distinct.
        max_length: the largest number of tokens.
        dtype: in which it runs and for which it is proved: float64, float32, bfloat16 or float16.
        causal: restrict every selection to keys up to the query's position.

    RefusalError says how far it is proved, where that is less than ``max_length``.

    >>> from attnforge.programs import select, selector_width, tokens
    >>> net = compile(selector_width(select(tokens, tokens, "==")), ["a", "b"], max_length=10)
    >>> net(["a", "b", "a"])
    [2, 1, 2]
    """
    made, tokens, size = _asked(program, vocabulary, max_length)
    made = made_causal(made) if causal else made
    kind = dtype_name(dtype)
    try:
        return _attempt(made, tokens, size, kind)
    except (CertificateError, RefusalError) as error:
        most = _largest(made, tokens, kind, size - 1)
        proved = f"{most:,} tokens are" if most else "not even one token is"
        remedy = f"Ask for max_length <= {most}, or a wider dtype" if most else "Use a wider dtype"
        wanted = f"The program must be proved for {size:,} tokens in {kind}"
        raise RefusalError(wanted, f"a proof that fails ({error}); {proved} proved", remedy) from error


def proved_lengths(
    program: Labels | Numbers | Entry,
    vocabulary: Sequence[Any] | None = None,
    dtypes: Sequence[DType] = ("float64", "float32", "bfloat16"),
    limit: int = LIMIT,
) -> dict[str, int]:
    """The largest length for which a program is proved in each dtype, up to ``limit``; 0 where there is none.

    Found by doubling and bisection: the length it returns is proved, one more is not, or is above the limit.
    """
    made, tokens, most = _asked(program, vocabulary, limit)
    return {dtype_name(each): _largest(made, tokens, dtype_name(each), most) for each in dtypes}


def _asked(
    program: Labels | Numbers | Entry, vocabulary: Sequence[Any] | None, max_length: int | None
) -> tuple[Labels | Numbers, Sequence[Any], int]:
    if type(max_length) is int and max_length > LONGEST:
        got = f"about 2^{max_length.bit_length()}"
        raise RefusalError(f"Programs are proved for at most {LONGEST:,} tokens", got, "Ask for fewer")
    if isinstance(program, Entry):
        tokens = program.vocabulary if vocabulary is None else vocabulary
        return _made(program, tokens), tokens, program.max_length if max_length is None else max_length
    if vocabulary is None or max_length is None:
        missing = "vocabulary" if vocabulary is None else "max_length"
        raise TargetError("A program is compiled for a `vocabulary` and a `max_length`", f"no {missing}", "Pass it")
    return program, vocabulary, max_length


def _made(entry: Entry, vocabulary: Sequence[Any]) -> Labels | Numbers:
    check_vocabulary(vocabulary)
    try:
        return entry.make(vocabulary)
    except Exception as error:
        got = f"{list(vocabulary)!r:.60} ({type(error).__name__}: {error})"
        raise TargetError(f"{entry.name!r} is made for a vocabulary of its kind", got, "Pass another one") from error


def _attempt(program: Labels | Numbers, vocabulary: Sequence[Any], max_length: int, dtype: str) -> ProgramNetwork:
    typed = Typed(program, vocabulary, max_length)
    layout = Layout(Typed(tabulated(program, typed), typed.vocabulary, max_length))
    try:
        network = build(layout, dtype)
        return ProgramNetwork(layout, network, dtype, certify_program(network, layout, dtype))
    except ArithmeticError as error:
        wanted = "Weights of a program and its scores are numbers of float64"
        raise RefusalError(wanted, f"a larger one ({error})", "Use smaller numbers") from error


def _largest(program: Labels | Numbers, vocabulary: Sequence[Any], dtype: str, limit: int) -> int:
    def holds(length: int) -> bool:
        try:
            _attempt(program, vocabulary, length, dtype)
        except (CertificateError, RefusalError):
            return False
        return True

    good, step = 0, 1
    while good + step <= limit and holds(good + step):
        good, step = good + step, 2 * step
    bad = min(good + step, limit + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good
