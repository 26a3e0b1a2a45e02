"""What a module really does: the operations it dispatches, and the check that they are linear or softmax attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from attnforge.errors import TargetError
from attnforge.runtime.module import AnyHead
from attnforge.runtime.sharded import ShardedHead
from attnforge.runtime.window import WindowHead

LINEAR = {"mm", "bmm", "matmul", "addmm", "add", "sum"}
SOFTMAX = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_softmax",
    "_safe_softmax",
    "mul in a head",
    "window",
    "sharded",
}
MOVES = {
    "view",
    "_unsafe_view",
    "reshape",
    "expand",
    "transpose",
    "permute",
    "unsqueeze",
    "squeeze",
    "slice",
    "split",
    "split_with_sizes",
    "select",
    "index_select",
    "index_add",
    "cat",
    "clone",
    "copy_",
    "empty",
    "new_zeros",
    "zeros",
    "fill_",
    "constant_pad_nd",
    "_to_copy",
    "detach",
    "lift_fresh",
    "alias",
    "t",
}


def operations(module: nn.Module, *inputs: Tensor) -> set[str]:
    """Names of the tensor operations the module dispatches on these inputs.

    Where a token has a key of its own, its score and its weighted value are products of what varies, and weights of a
    factorised head are products of others: of the operations inside heads, such a product is named apart. All that
    finds and weighs the keys of a window, compiled or not, is named ``window``; and a softmax in shards ``sharded``.
    """
    recorder, kinds = _Recorder(), AnyHead
    hooks = [hook for part in module.modules() if isinstance(part, kinds) for hook in recorder.follow(part)]
    try:
        with torch.no_grad(), recorder:
            module(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return recorder.seen


def audit(module: nn.Module, *inputs: Tensor) -> set[str]:
    """The module's operations, after checking that each is linear, a move of data, or a softmax inside attention.

    Raises a TargetError that names any other operation, a ReLU for instance.
    """
    seen = operations(module, *inputs)
    foreign = seen - LINEAR - SOFTMAX - MOVES
    if foreign:
        names = ", ".join(sorted(foreign))
        raise TargetError("The module must be linear maps and softmax attention only", names, "Remove these operations")
    return seen


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()
        self.in_head, self.whole = False, ""

    def follow(self, group: nn.Module) -> list[RemovableHandle]:
        """Know when the heads of a group run."""

        def enter(*_: Any) -> None:
            self.in_head = True
            self.whole = "window" if isinstance(group, WindowHead) else "sharded" * isinstance(group, ShardedHead)

        def leave(*_: Any) -> None:
            self.in_head, self.whole = False, ""

        return [group.register_forward_pre_hook(enter), group.register_forward_hook(leave, always_call=True)]

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket._qualified_op_name.split("::")[-1]  # type: ignore[attr-defined]
        self.seen.add(self.whole or ("mul in a head" if self.in_head and name == "mul" else name))
        return func(*args, **(kwargs or {}))
