"""Frozen attention that learns from its prompt: regressions, kernel regression, functions and heads as prompts."""

from attnforge.compiler.in_context import InContextNetwork
from attnforge.compiler.kernel import KernelNetwork
from attnforge.compiler.kernel_ridge import KernelRidgeNetwork
from attnforge.in_context.bayesian import BayesianLinear, BayesianNetwork
from attnforge.in_context.function_prompt import FunctionNetwork, FunctionPrompt, function_prompt
from attnforge.in_context.head_emulation import HeadNetwork, HeadPrompt, attention_prompt
from attnforge.in_context.kernel_regression import KernelRegression
from attnforge.in_context.kernel_ridge import KernelRidge
from attnforge.in_context.regression import (
    ElasticNet,
    Huber,
    Lasso,
    LeastSquares,
    Logistic,
    Poisson,
    Ridge,
    SoftmaxRegression,
)
from attnforge.in_context.saved_prompt import load_prompt
from attnforge.theorems.in_context.formats import concatenated, interleaved, split_concatenated, split_interleaved

__all__ = [
    "BayesianLinear",
    "BayesianNetwork",
    "ElasticNet",
    "FunctionNetwork",
    "FunctionPrompt",
    "HeadNetwork",
    "HeadPrompt",
    "Huber",
    "InContextNetwork",
    "KernelNetwork",
    "KernelRegression",
    "KernelRidge",
    "KernelRidgeNetwork",
    "Lasso",
    "LeastSquares",
    "Logistic",
    "Poisson",
    "Ridge",
    "SoftmaxRegression",
    "attention_prompt",
    "concatenated",
    "function_prompt",
    "interleaved",
    "load_prompt",
    "split_concatenated",
    "split_interleaved",
]
