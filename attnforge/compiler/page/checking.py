"""How whoever has the file can check it: commands where the target is stored, Python where it must be handed in."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from attnforge.display.markup import Markup, element
from attnforge.targets import Function, JointFunction, Table, Target

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

TRUST = "The file is not trusted when it is loaded: its digest, shapes and numbers are checked first."
WITHOUT = "Without a bound there is nothing to prove again; the error can be measured."
LISTED = "A table says nothing between its listed points; at these the error can be measured."
MISSING = (
    "The file holds no code, and so not the function: no command can {} without it. In Python, hand it in, as it was "
    "when this network was built:"
)


def is_stored(target: Target) -> bool:
    """Whether the file holds all of the target: formulas, tables and weights, but no callables."""
    return not isinstance(target, Function | JointFunction)


def checking(compiled: Compiled, file: str) -> list[Markup]:
    """What to run, and what it tells."""
    bounded = compiled.certificate.bound is not None
    if not is_stored(compiled.target):
        notice = MISSING.format("prove the bound again, or try to refute it," if bounded else "measure the error")
        parts = [element("p", notice), _code(_in_python(compiled, file))]
    elif bounded:
        parts = [_code(_commands(shlex.quote(file)))]
    else:
        parts = _measuring(compiled, shlex.quote(file))
    norm = compiled.certificate.norm
    about = [] if norm == "sup" else [element("p", _other_norm(norm))]
    return [*parts, *about, element("p", TRUST)]


def _measuring(compiled: Compiled, name: str) -> list[Markup]:
    """Without a bound: the error at a table's points, else the largest one that is found."""
    if isinstance(compiled.target, Table):
        lines = [
            f"attnforge measure {name}         # the error at all listed points",
            f"attnforge certify {name} --check # the same, by the independent checker",
        ]
        return [element("p", LISTED), _code(lines)]
    return [element("p", WITHOUT), _code([f"attnforge measure {name} --attack"])]


def _other_norm(norm: str) -> str:
    return (
        f"So the largest error at single points is measured. The {norm} error was estimated when this network was "
        "built, and may be small where the largest one is not."
    )


def _commands(name: str) -> list[str]:
    return [
        f"attnforge certify {name}          # prove the bound again",
        f"attnforge certify {name} --check  # by the independent checker",
        f"attnforge measure {name} --attack # try to refute it",
    ]


def _in_python(compiled: Compiled, file: str) -> list[str]:
    """Lines that name the function ``f``; what was said of its smoothness is in the file."""
    bounded = compiled.certificate.bound is not None
    kind, given = "Function", "net.domain, names=known.names, plain=known.plain"
    if isinstance(compiled.target, JointFunction):
        kind, given = "JointFunction", "known.keys, known.query"
    return [
        "import attnforge as af",
        f"from attnforge.targets import {kind}",
        "",
        f"net = af.load({file!r})",
        "known = net.target",
        f"target = {kind}(f, {given}, lipschitz=known.lipschitz())",
        *(["af.certify(net, target)  # prove the bound again"] if bounded else []),
        "af.attack(net, target)   # try to refute it" if bounded else "af.measure(net, target)",
    ]


def _code(lines: list[str]) -> Markup:
    return element("pre", element("code", "\n".join(lines)))
