"""Where a network can be watched and changed while it runs: identities at every head and after every layer.

``blocks.i`` belongs to the i-th layer that is applied, ``net.network.layers[i]``; one that is applied again has points
of its own each time, and so every step of an algorithm in context:

- ``hook_resid``: the tokens (batch, n, m) that enter the first layer;
- ``blocks.i.hook_resid``: the tokens after layer i;
- ``blocks.i.heads.j.hook_attn_scores``: the scores (batch, query, key) of head j, constant keys first;
- ``blocks.i.heads.j.hook_pattern``: their softmax;
- ``blocks.i.heads.j.hook_z``: the weighted means of values (batch, query, v), before W_O.

Leading axes are one, the batch. What a hook returns in place of a value is what the rest of the network reads. Points
are made when somebody first asks for them, so that those of a network of thousands of heads cost nothing until then.

With TransformerLens they are its ``HookPoint`` and the module is a ``HookedRootModule``: from the beginning where it
was imported before, else from the first use of one of its methods (:mod:`attnforge.runtime.lens`).
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, nn

from attnforge.errors import DomainError, RefusalError

if TYPE_CHECKING:
    from attnforge.network import Network

LENS = "transformer_lens"


class HeadHooks(nn.Module):
    """The points of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_attn_scores, self.hook_pattern, self.hook_z = hook_point(), hook_point(), hook_point()

    @property
    def attached(self) -> bool:
        """Whether one of them has a hook."""
        return is_hooked(self.hook_attn_scores) or is_hooked(self.hook_pattern) or is_hooked(self.hook_z)


class BlockHooks(nn.Module):
    """The points of one layer: those of its heads, none for linear maps, and the tokens after it."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(HeadHooks() for _ in range(heads))
        self.hook_resid = hook_point()

    def attached(self) -> dict[int, HeadHooks]:
        """The points of the heads that have a hook."""
        return {j: head for j, head in enumerate(self.heads) if isinstance(head, HeadHooks) and head.attached}


class Blocks(nn.ModuleList):
    """The points of all layers, of ``heads`` heads each; there when they are asked for, by whatever way."""

    def __init__(self, heads: Sequence[int]) -> None:
        super().__init__()
        self.counts = tuple(heads)

    @property
    def are_made(self) -> bool:
        """Whether somebody has asked for a point; nobody else has hooks."""
        return bool(self._modules)

    def at(self, place: int) -> BlockHooks | None:
        """The points of one layer, unless nobody has asked for any."""
        found = self._modules[str(place)] if self._modules else None
        return found if isinstance(found, BlockHooks) else None

    def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Module]]:
        """Itself and all points, by name."""
        self._make()
        yield from super().named_modules(*args, **kwargs)

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """The points of every layer, by name."""
        self._make()
        return super().named_children()

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[nn.Module]:
        self._make()
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        self._make()
        return super().__getitem__(index)

    def __getattr__(self, name: str) -> Any:
        if name.isdigit() and not self.are_made:
            self._make()
        return super().__getattr__(name)

    def __repr__(self) -> str:
        return f"Blocks({len(self)} layers, {sum(self.counts)} heads: hook points)"

    def _apply(self, _fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Identities hold no tensor to be moved."""
        return self

    def _make(self) -> None:
        if not self._modules:
            self._modules.update({str(i): BlockHooks(heads) for i, heads in enumerate(self.counts)})


def _method(name: str) -> Callable[..., Any]:
    """A method of TransformerLens, of a module that becomes a HookedRootModule by it."""

    def method(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        _become_root(self, name)
        return getattr(self, name)(*args, **kwargs)

    method.__name__, method.__doc__ = name, f"``HookedRootModule.{name}`` of TransformerLens."
    return method


class _Table:
    """What a HookedRootModule knows by name once it is set up, and then has instead of this."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        _become_root(module, self.name)
        module.setup()
        return vars(module)[self.name]


class Hooked(nn.Module, ABC):
    """A module with hook points, that answers the methods of TransformerLens where that is installed."""

    blocks: Blocks
    hook_resid: nn.Module

    def __init__(self, blocks: Blocks, hook_resid: nn.Module) -> None:
        super().__init__()
        self.blocks, self.hook_resid = blocks, hook_resid
        if LENS in sys.modules and (lens := _lens()) is not None:
            lens.become_root(self)

    @abstractmethod
    def network(self) -> Network:
        """The network whose weights are those of the module at present: trained, loaded or changed since it was made.

        Claims are those of the network it was made of; nothing that reads them trusts them.
        """

    hook_dict = _Table()
    mod_dict = _Table()
    add_caching_hooks = _method("add_caching_hooks")
    add_hook = _method("add_hook")
    add_perma_hook = _method("add_perma_hook")
    get_caching_hooks = _method("get_caching_hooks")
    hook_points = _method("hook_points")
    hooks = _method("hooks")
    list_hooks = _method("list_hooks")
    remove_all_hook_fns = _method("remove_all_hook_fns")
    reset_hooks = _method("reset_hooks")
    run_with_cache = _method("run_with_cache")
    run_with_hooks = _method("run_with_hooks")


def is_hooked(point: nn.Module) -> bool:
    """Whether a hook is attached, forwards or backwards."""
    hooks = point._forward_hooks or point._backward_hooks or point._forward_pre_hooks or point._backward_pre_hooks
    return bool(hooks)


def hook_point() -> nn.Module:
    """An identity: a HookPoint where TransformerLens was imported."""
    lens = _lens() if LENS in sys.modules else None
    return nn.Identity() if lens is None else lens.HookPoint()


def watched(point: nn.Module, value: Tensor) -> Tensor:
    """The value, or what hooks have made of it: of its shape, dtype and device."""
    found = point(value)
    if not isinstance(found, Tensor) or found.shape != value.shape:
        got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        remedy = "Return a tensor of the same shape, or None to leave it as it is"
        raise DomainError(f"A hook here takes and returns a tensor of shape {tuple(value.shape)}", got, remedy)
    return found.to(value)


def _become_root(module: Hooked, name: str) -> None:
    """Make a HookedRootModule of it, of which something is asked for by name."""
    lens = _lens()
    if lens is None:
        requirement = f"`{name}` needs TransformerLens 4.3 or newer, the extra `lens`"
        remedy = "Run pip install 'attnforge[lens]', or use module.get_submodule(name).register_forward_hook(...)"
        raise RefusalError(requirement, "no such package", remedy)
    lens.become_root(module)


def _lens() -> Any:
    """The bridge to TransformerLens; None where that is not installed, or too old to know of such modules."""
    try:
        from attnforge.runtime import lens
    except ImportError:
        return None
    return lens
