"""Arrays of formulas that NumPy and torch take for arrays: what is done with them is written down.

NumPy hands its functions over by ``__array_ufunc__`` and ``__array_function__``, torch by ``__torch_function__``: both
by name, which :mod:`.elementwise` or :mod:`.operations` knows, or the function is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from attnforge.expression.tree import Variable
from attnforge.targets.tracing import elementwise
from attnforge.targets.tracing.arrays import NodeArray, Nodes, nodes_of, on_entries, refuse
from attnforge.targets.tracing.operations import OPERATIONS


class Symbol(NodeArray):
    """An array of nodes, of any shape; a number has the shape ().

    >>> x = Symbol.variables(["x[0]", "x[1]"])
    >>> (x * 2 + 1).nodes[1]
    Apply('+', (Apply('*', (Variable('x[1]'), Constant(2.0))), Constant(1.0)))
    """

    __slots__ = ()
    __array_priority__: ClassVar[float] = 1000.0  # matrices and such ask us first
    __hash__ = None  # type: ignore[assignment]  # comparing gives a formula
    dtype = device = None  # where an array is made like this one, the default is right

    @classmethod
    def variables(cls, names: Sequence[str]) -> Symbol:
        """A vector of inputs."""
        return cls(np.array([Variable(name) for name in names], dtype=object))

    @classmethod
    def of(cls, value: Any) -> Symbol:
        """A symbol of a symbol, numbers, arrays, tensors, or sequences of these; all else is refused."""
        return cls(nodes_of(value))

    # Shape

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return self.nodes.shape

    @property
    def ndim(self) -> int:
        """As of an array."""
        return self.nodes.ndim

    @property
    def T(self) -> Symbol:  # noqa: N802
        """Transposed."""
        return Symbol(self.nodes.T)

    def size(self, axis: int | None = None) -> Any:
        """As of a tensor."""
        return self.shape if axis is None else self.shape[axis]

    def dim(self) -> int:
        """As of a tensor."""
        return self.ndim

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Symbol]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Symbol:
        return Symbol(np.asarray(self.nodes[index], dtype=object))

    # What NumPy and torch do

    def __array_ufunc__(self, ufunc: Any, method: str, *arguments: Any, **options: Any) -> Symbol:
        if method != "__call__":
            refuse(f"`np.{ufunc.__name__}.{method}`", "Use np.sum, np.prod and their kind")
        return call(ufunc.__name__, arguments, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Mapping[str, Any]) -> Symbol:
        return call(function.__name__, arguments, options)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Symbol:
        return call(function.__name__, arguments, options or {})

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        if name not in OPERATIONS and not elementwise.is_elementwise(name):
            raise AttributeError(f"a symbol has no `{name}`")
        return lambda *arguments, **options: call(name, (self, *arguments), options)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Nodes:
        """An array of symbols, of which NumPy calls the methods: ``np.array([x, y])``."""
        if dtype not in (None, object):
            refuse(f"an array of {np.dtype(dtype)}", "Leave the dtype out")
        found = np.empty(self.shape, dtype=object)
        for place in np.ndindex(self.shape):
            found[place] = self[place]
        return found

    # What Python does

    def __neg__(self) -> Symbol:
        return call("negative", (self,))

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return call("abs", (self,))

    def __bool__(self) -> NoReturn:
        refuse("a choice by a value (`if`, `and`, `while`, `max`)", "Use np.where, np.maximum, np.minimum or np.clip")

    def __float__(self) -> NoReturn:
        refuse("a conversion to a number (`float`, `math.sin`)", "Use np.sin and its kind")

    __int__ = __index__ = __complex__ = __float__
    __round__ = __floor__ = __ceil__ = __trunc__ = __float__

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        refuse("an assignment to an entry", "Use np.stack or torch.cat of the parts")

    def __contains__(self, value: Any) -> NoReturn:
        refuse("a search in values (`in`)", "Use formulas")


def _operator(name: str, swapped: bool = False) -> Callable[[Symbol, Any], Symbol]:
    return (lambda a, b: call(name, (b, a))) if swapped else (lambda a, b: call(name, (a, b)))


OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
    "matmul": "matmul",
}
COMPARISONS = {"lt": "less", "gt": "greater", "le": "less_equal", "ge": "greater_equal", "and": "logical_and"}
REFUSED = {"eq": "equal", "ne": "not_equal", "mod": "mod", "floordiv": "floor_divide"}  # no formulas

for _short, _name in (OPERATORS | COMPARISONS | REFUSED).items():
    setattr(Symbol, f"__{_short}__", _operator(_name))
for _short, _name in OPERATORS.items():
    setattr(Symbol, f"__r{_short}__", _operator(_name, swapped=True))


def call(name: str, arguments: Sequence[Any], options: Mapping[str, Any] | None = None) -> Symbol:
    """What a function of that name gives."""
    plain, given = _plain_name(name), _known_options(options or {})
    if plain in OPERATIONS:
        try:
            return Symbol(OPERATIONS[plain](*arguments, **given))
        except TypeError as error:
            refuse(f"`{plain}` with other arguments than are known ({error})", "Write it with simpler functions")
    if not elementwise.is_elementwise(plain):
        refuse(f"`{plain}`", "Write it with sums, products and functions that formulas know")
    if given:
        refuse(f"`{plain}` with {', '.join(given)}", "Leave these options out")
    return Symbol(on_entries(partial(elementwise.apply, plain), *arguments))


RENAMED = {"dim": "axis", "keepdim": "keepdims", "min": "a_min", "max": "a_max"}  # torch's names, and NumPy's
IGNORED = {"inplace", "_stacklevel"}  # they change no value
UNSET: dict[str, Any] = {"out": None, "dtype": None, "where": True, "keepdims": False}


def _known_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options under one name each, without those that change nothing."""
    renamed = {RENAMED.get(key, key): value for key, value in options.items() if key not in IGNORED}
    return {key: value for key, value in renamed.items() if not (key in UNSET and value is UNSET[key])}


def _plain_name(name: str) -> str:
    """Names of operators, and of torch's special functions, without their signs."""
    bare = name.strip("_") if name.startswith("__") else name.removeprefix("special_")
    return {"radd": "add", "rmul": "mul", "truediv": "div", "rtruediv": "rdiv"}.get(bare, bare)
