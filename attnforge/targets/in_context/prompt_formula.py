r"""Functions of a whole prompt: formulas with means over its tokens, and of a query.

$$ F(x_1, \dots, x_n; q) = G\Bigl(\frac1n\sum_i \phi_1(x_i, q), \dots, \frac1n\sum_i \phi_m(x_i, q), q\Bigr), $$
written as ``tokens.mean(x*y)/tokens.mean(x^2)*q``: what stands in a mean is a $\phi$, all around it is G. Functions of
this kind are dense in the continuous functions of the empirical measure of a prompt and a query (Stone-Weierstrass).

**Range.** A mean lies where $\phi$ does, in the hull of its range over the box, whatever n; conditions on expressions
of means, such as ``tokens.mean(x^2) >= 0.1``, narrow G's domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.expression import Node, evaluate, parse, to_text, variables
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import Interval, is_undefined
from attnforge.expression.parse import MEAN
from attnforge.expression.ranges import is_large, range_on
from attnforge.expression.tree import Apply, Variable, fold
from attnforge.outward import lower as from_below
from attnforge.outward import precision, upper
from attnforge.targets.domain import Box
from attnforge.targets.formula import input_names
from attnforge.targets.formulas import Formulas
from attnforge.targets.graph import Conditions, common, conditioned
from attnforge.targets.in_context.prompt_target import PromptTarget
from attnforge.targets.target import AnyArray, box_from_data, box_to_data

Array = npt.NDArray[np.float64]
Ends = tuple[float | None, float | None]

MOST = 10**6  # tokens of a prompt, for which a network is certified unless another number is given
FIRST = 0  # the token that asks for means, and holds the result
SHOWN = 120  # characters of a subexpression in an error message


class Between:
    """What a token holds between the two graphs of a network: m features to take means of, k of the query, m means."""

    def __init__(self, means: int, query: int) -> None:
        self.means, self.query, self.width = means, query, 2 * means + query

    @property
    def read(self) -> Array:
        """The map (width, m) to what means are taken of."""
        return np.eye(self.width, self.means)

    @property
    def written(self) -> Array:
        """The map (m, width) from means to where they are held."""
        return np.eye(self.means, self.width, self.means + self.query)

    def filled(self, phi: Array, features: int) -> Array:
        """From the registers of the first graph, which writes by ``phi`` (registers, m); means are zero at first."""
        kept = np.eye(len(phi), self.query, -(1 + features - self.query))
        return np.hstack([phi, kept, np.zeros((len(phi), self.means))])

    def moved(self, width: int) -> Array:
        """To the registers of the second graph: means and query follow the constant."""
        found = np.zeros((self.width, width))
        for i in range(self.means + self.query):
            found[(self.means + self.query + i) % self.width if i < self.means else i, 1 + i] = 1.0
        return found


class PromptFormula(PromptTarget):
    """A formula of means over tokens, and of a query.

    Names that are outside of means, or listed as ``query``, are the query's; the others are features of a token.
    ``given`` bounds expressions of means, for the prompts that count, from below, above or both; ``tokens`` is the
    largest number of them.

    >>> target = PromptFormula("tokens.mean(x*y)/tokens.mean(x^2)*q", Box([1, 0, 0], [2, 1, 1]), ("x", "y", "q"))
    >>> target.features, target.query, [target.shown(node) for node in (target.tree, *target.means)]
    (('x', 'y'), ('q',), ['tokens.mean(x*y)/tokens.mean(x^2)*q', 'x*y', 'x^2'])
    >>> float(target.values(np.array([[1.0, 0.5, 1.0], [2.0, 1.0, 1.0]])))
    0.5
    """

    call, exact = "net(prompt, query)", "f(prompt, query)"
    data_bound = examples = None
    certify = "net.certify(tokens)"

    def __init__(
        self,
        text: str,
        domain: Box,
        names: tuple[str, ...] | None = None,
        query: Sequence[str] | None = None,
        given: Mapping[str, Ends] | None = None,
        tokens: int = MOST,
    ) -> None:
        self.text, self.means, self._box, self.tokens = text, list[Node](), domain, tokens
        self.tree = parse(text, names, self.means)
        inside = dict.fromkeys(name for node in self.means for name in variables(node))
        outside = [name for name in variables(self.tree) if not _is_mean(name)]
        self._names = input_names(tuple(dict.fromkeys([*inside, *outside])), names, domain.shape[0])
        self.query = self._asked(query, outside)
        self.features = tuple(name for name in self._names if name not in self.query)
        self._check_names(inside)
        if type(tokens) is not int or tokens < 1:
            raise TargetError("`tokens` is the largest number of them, at least 1", repr(tokens)[:40], "Use 10**6")
        self.given = {str(key): _ends(key, ends) for key, ends in (given or {}).items()}
        self._trees = {key: self._condition(key) for key in self.given}

    @property
    def domain(self) -> Box:  # type: ignore[override]
        """The box of a token's features and of the query, in the order of the names."""
        return self._box

    @property
    def names(self) -> tuple[str, ...]:
        """Of all features of tokens and of the query, in the order of the domain."""
        return self._names

    @cached_property
    def order(self) -> list[int]:
        """Where in the domain the columns of assembled tokens are: features first, then the query."""
        return [self._names.index(name) for name in (*self.features, *self.query)]

    @cached_property
    def box(self) -> Box:
        """The domain in that order."""
        return Box(self._box.lower[self.order], self._box.upper[self.order])

    @cached_property
    def inner(self) -> Formulas:
        """What means are taken of, as functions of a token with the query beside its features."""
        return Formulas(self.means, self.box, (*self.features, *self.query))

    def outer(self, off: Sequence[tuple[float, float]] = ()) -> Formulas:
        """G, as a function of the means and the query, where the conditions hold; ``off``: of the means."""
        low, high = np.array(list(self.sides.values())).T
        shifted = (*(off or ((0.0, 0.0),) * len(self.means)), *((0.0, 0.0),) * len(self.query))
        return Formulas([self.tree], Box(low, high), tuple(self.sides), True, self.conditions, shifted)

    @cached_property
    def sides(self) -> dict[str, tuple[float, float]]:
        """The box of G: means, then the query."""
        place = len(self.features)
        ends = zip(self.query, self.box.lower[place:].tolist(), self.box.upper[place:].tolist(), strict=True)
        found = {f"mean[{i}]": inside for i, inside in enumerate(self.ranges)}
        return found | {name: (a, b) for name, a, b in ends}

    @cached_property
    def hulls(self) -> list[tuple[float, float]]:
        """Ranges, over the whole box, of what means are taken of."""
        pairs = zip((*self.features, *self.query), self.box.lower.tolist(), self.box.upper.tolist(), strict=True)
        sides = {name: Interval(arb(a), arb(b)) for name, a, b in pairs}
        with precision():
            found = [range_on(node, sides) for node in self.means]
        for node, inside in zip(self.means, found, strict=True):
            if is_undefined(inside) or not (inside.upper - inside.lower).is_finite():
                raise RefusalError("A mean is of what has values on the whole box", to_text(node)[:SHOWN], "Shrink it")
        return [(from_below(inside.lower), upper(inside.upper)) for inside in found]

    @cached_property
    def ranges(self) -> list[tuple[float, float]]:
        """Of the means: the hulls, as far as conditions on one mean alone allow."""
        found = []
        for i, (low, high) in enumerate(self.hulls):
            mine = [ends for key, ends in self.given.items() if self._trees[key] == Variable(f"mean[{i}]")]
            low = max([low, *(float(end) for end, _ in mine if end is not None)])
            high = min([high, *(float(end) for _, end in mine if end is not None)])
            self._check_possible(Variable(f"mean[{i}]"), Interval(arb(low), arb(high)))
            found.append((low, high))
        return found

    @property
    def stated(self) -> list[str]:
        """The conditions in words."""
        return [f"with {_shown(key, ends)}" for key, ends in self.given.items()]

    @cached_property
    def conditions(self) -> Conditions:
        """Those on expressions of several means."""
        found = []
        for key, (low, high) in self.given.items():
            ends = arb.neg_inf() if low is None else arb(low), arb.pos_inf() if high is None else arb(high)
            found.append((self._trees[key], Interval(*ends)))
        return found

    def check_defined(self) -> None:
        """Refuse quotients, roots and logarithms of what may leave where they have values, naming it."""
        sides = {name: Interval(arb(a), arb(b)) for name, (a, b) in self.sides.items()}

        def visit(node: Node, parts: Sequence[tuple[Node, Interval]]) -> tuple[Node, Interval]:
            if not isinstance(node, Apply):
                found = sides[node.name] if isinstance(node, Variable) else bounds(node, {})
            else:
                places = {f"a[{i}]": part for i, (_, part) in enumerate(parts)}
                found = bounds(Apply(node.function, tuple(map(Variable, places))), places)
                self._check_node(node, parts, found)
            if not is_large(node):
                found = common(range_on(node, sides), found)
            return node, conditioned(found, node, self.conditions)

        with precision():
            for node, inside in self.conditions:
                self._check_possible(node, common(range_on(node, sides), inside))
            fold(self.tree, visit)

    def _check_possible(self, node: Node, inside: Interval) -> None:
        if inside.lower > inside.upper:
            got = f"`{self.shown(node)[:SHOWN]}` cannot be there"
            raise TargetError("Some prompts of the box meet the conditions", got, "Weaken them")

    def _check_node(self, node: Apply, parts: Sequence[tuple[Node, Interval]], found: Interval) -> None:
        base = parts[-1] if node.function == "/" else parts[0] if parts else (node, found)
        inside = base[1]
        vanishes = not (inside.lower > 0 or inside.upper < 0)
        if (node.function == "/" and vanishes) or (is_undefined(found) and not any(is_undefined(p) for _, p in parts)):
            text = self.shown(base[0])[:SHOWN]
            reach = f"[{float(inside.lower):.3g}, {float(inside.upper):.3g}]"
            got = f"`{text}` in {reach} for some prompts of the box"
            wanted = f"`{self.shown(node)[:SHOWN]}` has a value for every prompt"
            raise RefusalError(wanted, got, f'State a condition, as given={{"{text}": (0.1, None)}}')

    def shown(self, node: Node) -> str:
        """The text of an expression, means as they are written."""
        text = to_text(node)
        for i, mean in enumerate(self.means):
            text = text.replace(f"mean[{i}]", f"{MEAN}({to_text(mean)})")
        return text

    def values(self, points: AnyArray) -> AnyArray:
        """Values (...) at assembled tokens (..., n, features and query), the query that of the first token."""
        return np.broadcast_to(evaluate(self.tree, self._columns(points)), points.shape[:-2])

    def _columns(self, tokens: AnyArray) -> dict[str, AnyArray]:
        """What G reads."""
        means = self.inner.values(tokens).mean(axis=-2)
        found = {f"mean[{i}]": means[..., i] for i in range(len(self.means))}
        return found | {name: tokens[..., 0, len(self.features) + i] for i, name in enumerate(self.query)}

    def assembled(self, prompt: AnyArray, query: AnyArray) -> AnyArray:
        """Tokens (..., n, features and query) of a prompt (..., n, t) and a query (..., k), after checking both."""
        t, k, wanted = len(self.features), len(self.query), "A prompt is (..., n, {}) and a query (..., {})"
        if prompt.ndim < 2 or prompt.shape[-1] != t or query.shape[-1:] != (k,) or not prompt.shape[-2]:
            got = f"shapes {prompt.shape} and {query.shape}"
            raise DomainError(wanted.format(t, k), got, f"Its columns are {', '.join(self.features)}")
        if prompt.shape[-2] > self.tokens:
            got, remedy = f"{prompt.shape[-2]:,}", "Compile with a larger `tokens`"
            raise DomainError(f"This network is certified for at most {self.tokens:,} tokens", got, remedy)
        try:
            batch = np.broadcast_shapes(prompt.shape[:-2], query.shape[:-1])
        except ValueError:
            got = f"{prompt.shape} and {query.shape}"
            raise DomainError("Leading axes of prompt and query broadcast", got, "Reshape them") from None
        wide = np.broadcast_to(query[..., None, :], (*batch, prompt.shape[-2], k))
        tokens = np.concatenate([np.broadcast_to(prompt, (*batch, *prompt.shape[-2:])), wide], axis=-1)
        self.box.check(tokens)
        self._check_given(tokens)
        return tokens

    def meets(self, tokens: AnyArray) -> AnyArray:
        """Which assembled prompts (..., n, features and query) meet all conditions."""
        found = np.ones(tokens.shape[:-2], dtype=bool)
        for _, _, met in self._held(tokens):
            found &= met
        return found

    def _held(self, tokens: AnyArray) -> Iterator[tuple[str, AnyArray, AnyArray]]:
        """Of every condition its text, what it is on, and whether that meets it."""
        columns = self._columns(tokens.astype(np.longdouble)) if self.given else {}
        for key, (low, high) in self.given.items():
            held = np.asarray(evaluate(self._trees[key], columns), dtype=np.longdouble)
            met = (held >= (-np.inf if low is None else low)) & (held <= (np.inf if high is None else high))
            yield _shown(key, (low, high)), held, met

    def _check_given(self, tokens: AnyArray) -> None:
        for text, held, met in self._held(tokens):
            if not met.all():
                got = f"{float(held[~met].flat[0]):.6g}"
                raise DomainError(f"The prompt must meet the condition {text}", got, "Leave it out")

    def on(self, domain: Box) -> PromptFormula:
        """The same on another box."""
        return PromptFormula(self.text, domain, self._names, self.query, self.given, self.tokens)

    def describe(self) -> str:
        """The formula, of which names are the query's, and the conditions."""
        met = "".join(f", given {_shown(key, ends)}" for key, ends in self.given.items())
        asked = f", query {', '.join(self.query)}" if self.query else ""
        return f"{self.shown(self.tree)} of tokens ({', '.join(self.features)}){asked}{met}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: the texts, which are parsed again on loading."""
        given = {key: [None if end is None else float(end).hex() for end in ends] for key, ends in self.given.items()}
        data = {"kind": "prompt_formula", "text": self.text, "names": list(self._names), "query": list(self.query)}
        return {**data, "given": given, "tokens": self.tokens}, box_to_data(self._box)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> PromptFormula:
        """From a file."""
        given = {
            str(key): tuple(None if end is None else float.fromhex(end) for end in ends)
            for key, ends in data["given"].items()
        }
        names, query = (tuple(str(name) for name in data[key]) for key in ("names", "query"))
        return cls(str(data["text"]), box_from_data(arrays), names, query, given, data["tokens"])  # type: ignore[arg-type]

    def _asked(self, query: Sequence[str] | None, outside: Sequence[str]) -> tuple[str, ...]:
        asked = (query,) if isinstance(query, str) else tuple(query or ())
        unknown = ", ".join(repr(name) for name in asked if name not in self._names)
        if unknown:
            raise TargetError("`query` lists names of the domain", unknown[:80], "Name them there")
        return tuple(name for name in self._names if name in asked or name in outside)

    def _check_names(self, inside: Mapping[str, None]) -> None:
        if not self.means:
            raise TargetError(f"A function of a prompt has a {MEAN}(...)", f"`{self.text[:SHOWN]}`", "Use compile")
        idle = [name for name in self.features if name not in inside]
        if idle:
            raise TargetError("Every name of the domain is in the formula", f"`{idle[0]}` is not", "Leave it out")
        if not self.features:
            got = f"{', '.join(self.query)}, which are also outside of means or in `query`"
            remedy = "Give tokens and query names of their own"
            raise TargetError("Tokens have a feature of their own", got, remedy)
        if any(name.split("[")[0] == "mean" for name in self._names):
            raise TargetError("An input needs a name of its own", "`mean`", "Rename the input")

    def _condition(self, key: str) -> Node:
        known = len(self.means)
        tree = parse(key, self._names, self.means)
        strange = [name for name in variables(tree) if not _is_mean(name) and name not in self.query]
        if len(self.means) > known or strange or not variables(tree):
            del self.means[known:]
            remedy = f"Use {', '.join(f'{MEAN}({to_text(node)})' for node in self.means)[:SHOWN]}"
            raise TargetError("A condition is on means of the formula, and on the query", f"`{key[:SHOWN]}`", remedy)
        return tree


def _is_mean(name: str) -> bool:
    return name.startswith("mean[")


def _ends(key: Any, ends: Any) -> Ends:
    pair = tuple(ends) if isinstance(ends, Sequence) and len(ends) == 2 else None
    numbers = [end for end in pair or () if end is not None]
    fits = numbers and all(isinstance(end, int | float) and math.isfinite(end) for end in numbers)
    if pair is None or not fits or (len(numbers) == 2 and not numbers[0] <= numbers[1]):
        wanted = "A condition has a lower end, an upper end, or both: (0.1, None)"
        raise TargetError(wanted, f"{ends!r:.40} of {key!r:.80}", "Write two numbers in order, or None for one")
    return pair[0], pair[1]


def _shown(key: str, ends: Ends) -> str:
    low, high = ends
    return f"{'' if low is None else f'{low:g} <= '}{key}{'' if high is None else f' <= {high:g}'}"
