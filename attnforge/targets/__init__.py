"""What is to be approximated: targets, the boxes they live on, and what is known of their regularity."""

from attnforge.targets.domain import Box, as_box, part_of
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.function import Function
from attnforge.targets.in_context import (
    AttentionHead,
    Iteration,
    KernelAverage,
    KernelSystem,
    PromptFormula,
    PromptTarget,
)
from attnforge.targets.joint import JointFunction
from attnforge.targets.open_formula import OpenFormula
from attnforge.targets.regularity import Lipschitz, as_lipschitz
from attnforge.targets.relu_network import Activation, Affine, ReluNetwork
from attnforge.targets.stored import target_from_data
from attnforge.targets.table import Grid, Table, as_table
from attnforge.targets.target import Target, TruncatedForm
from attnforge.targets.truncated_linear import TruncatedLinear

__all__ = [
    "Activation",
    "Affine",
    "AttentionHead",
    "Box",
    "Formula",
    "Formulas",
    "Function",
    "Grid",
    "Iteration",
    "JointFunction",
    "KernelAverage",
    "KernelSystem",
    "Lipschitz",
    "OpenFormula",
    "PromptFormula",
    "PromptTarget",
    "ReluNetwork",
    "Table",
    "Target",
    "TruncatedForm",
    "TruncatedLinear",
    "as_box",
    "as_lipschitz",
    "as_table",
    "part_of",
    "target_from_data",
]
