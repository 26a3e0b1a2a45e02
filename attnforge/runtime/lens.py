"""Our modules as TransformerLens knows them: the points are its ``HookPoint``, a module is its ``HookedRootModule``.

Importing TransformerLens takes seconds, so this file is imported where that has happened already, or when one of its
methods is first called (:mod:`attnforge.runtime.hooks`). The object stays the same, with its weights, its points and
whatever hooks they have; its class becomes a subclass of both.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

__all__ = ["HookPoint", "become_root"]


def become_root(module: Any) -> None:
    """Make it a HookedRootModule, once."""
    if not isinstance(module, HookedRootModule):
        kind: Any = type(module)
        module.__class__ = _rooted(kind)
        module.is_caching, module.context_level = False, 0


def _set_up(self: Any) -> None:
    """Name all modules, and list those that are points; identities from before become points."""
    for each in self.modules():
        if type(each) is nn.Identity:
            each.__class__ = HookPoint
            for name, value in vars(HookPoint()).items():
                vars(each).setdefault(name, value)
    HookedRootModule.setup(self)


def _reduce(self: Any, _protocol: object) -> tuple[Any, ...]:
    """For copies and pickles: the class is made anew."""
    return _blank, (type(self).__bases__[0],), vars(self)


def _blank(plain: Any) -> Any:
    kind = _rooted(plain)
    return kind.__new__(kind)


@cache
def _rooted(plain: Any) -> Any:
    """A subclass of both, whose methods by which it has become one are now those of TransformerLens."""
    lent = {name for name in dir(plain) if hasattr(HookedRootModule, name) and not hasattr(nn.Module, name)}
    members = {name: getattr(HookedRootModule, name) for name in lent}
    members |= {"__doc__": plain.__doc__, "__module__": plain.__module__, "setup": _set_up, "__reduce_ex__": _reduce}
    return type(plain.__name__, (plain, HookedRootModule), members)
