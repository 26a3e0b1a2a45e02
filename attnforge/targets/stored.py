"""Targets back from what a file holds: text is parsed again, numbers are checked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnforge.errors import AttnforgeError, FileFormatError
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.function import Function
from attnforge.targets.in_context import AttentionHead, Iteration, KernelAverage, KernelSystem, PromptFormula
from attnforge.targets.joint import JointFunction
from attnforge.targets.programs.stored import KIND, Program
from attnforge.targets.relu_network import ReluNetwork
from attnforge.targets.table import Table
from attnforge.targets.target import AnyArray, Target
from attnforge.targets.truncated_linear import TruncatedLinear

Storable = (
    Formula
    | Formulas
    | TruncatedLinear
    | ReluNetwork
    | Function
    | JointFunction
    | Table
    | Iteration
    | KernelAverage
    | KernelSystem
    | AttentionHead
    | PromptFormula
    | Program
)

KINDS: dict[str, type[Storable]] = {
    "attention_head": AttentionHead,
    "callable": Function,
    "joint_callable": JointFunction,
    "formula": Formula,
    "formulas": Formulas,
    "in_context": Iteration,
    "kernel_average": KernelAverage,
    "prompt_formula": PromptFormula,
    "kernel_system": KernelSystem,
    "truncated_linear": TruncatedLinear,
    "relu_network": ReluNetwork,
    "table": Table,
    KIND: Program,
}


def target_from_data(data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Target | Program:
    """The target whose ``to_data`` gave these."""
    kind = data.get("kind")
    if kind not in KINDS:
        raise FileFormatError("A stored target is one of " + ", ".join(KINDS), repr(kind), "Use a newer attnforge")
    try:
        return KINDS[kind].from_data(data, arrays)
    except (AttnforgeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"The stored {kind} must be a valid target", str(error)[:500]) from error
