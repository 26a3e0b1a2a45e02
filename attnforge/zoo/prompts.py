"""Functions and heads as prompts: one frozen network, whose prompt says what it computes; here given the prompt.

``attnforge.in_context.load_prompt`` reads the tokens from a saved one.
"""

from __future__ import annotations

import numpy as np

import attnforge as af
from attnforge.zoo.citations import LIU, OURS
from attnforge.zoo.entry import Entry

KIND = "prompt"
FROZEN = "weights are zeros and ones: slopes, offsets and values of the keys are read from the prompt's tokens"

# Small numbers that can be read, of no meaning: any matrices would do.
W_Q = np.array([[2.0, 0.0], [1.0, -1.0], [0.0, 1.0]]) / 2
W_K = np.array([[1.0, 1.0], [0.0, 2.0], [-1.0, 0.0]]) / 2
W_V = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]) / 2

ENTRIES = (
    Entry(
        "function_as_prompt",
        KIND,
        "sin(3 x), spelled out by ten tokens",
        "x in [-1, 1]",
        f"one head of cross-attention; {FROZEN}",
        OURS,
        lambda: af.in_context.function_prompt("sin(3*x)", {"x": (-1, 1)}, tol=1e-6)[1].compiled,
    ),
    Entry(
        "surface_as_prompt",
        KIND,
        "exp(-x^2 - y^2), spelled out by 64 tokens",
        "x, y in [-1, 1]",
        f"one head of cross-attention of two inputs; {FROZEN}",
        LIU,
        lambda: af.in_context.function_prompt("exp(-x^2 - y^2)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-4)[1].compiled,
    ),
    Entry(
        "head_as_prompt",
        KIND,
        "softmax(X W_Q W_K^T X^T) X W_V, whose matrices are the prompt",
        "tokens (n, 3) in [-1, 1], n up to 1,024",
        "two barely sharp heads multiply X by the matrices that they read from six tokens; a third one attends",
        "Hu et al. 2025, In-Context Algorithm Emulation in Fixed-Weight Transformers, arXiv:2508.17550",
        lambda: af.in_context.attention_prompt(W_Q, W_K, W_V)[1].compiled,
    ),
)
