"""What a module really does: the operations it dispatches, and the check that they are linear or softmax attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from attnforge.errors import TargetError

LINEAR = {"mm", "bmm", "matmul", "addmm", "add", "sum", "mul_by_constant"}
SOFTMAX = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_softmax",
    "_safe_softmax",
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
    "alias",
    "t",
}


def operations(module: nn.Module, *inputs: Tensor) -> set[str]:
    """Names of the tensor operations the module dispatches on these inputs."""
    recorder = _Recorder()
    with torch.no_grad(), recorder:
        module(*inputs)
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

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.seen.add(func.overloadpacket._qualified_op_name.split("::")[-1])  # type: ignore[attr-defined]
        return func(*args, **(kwargs or {}))
