"""Prompts from files: of functions and of heads, as their networks given the prompt are stored."""

from __future__ import annotations

import os

from attnforge.compiler.loading import load
from attnforge.errors import FileFormatError
from attnforge.in_context.function_prompt import FunctionPrompt, function_prompt_of
from attnforge.in_context.head_emulation import HeadPrompt, head_prompt_of


def load_prompt(path: str | os.PathLike[str]) -> FunctionPrompt | HeadPrompt:
    """Read a prompt written by ``prompt.save``; a model of another kind is refused."""
    compiled = load(path)
    found = function_prompt_of(compiled) or head_prompt_of(compiled)
    if found is None:
        raise FileFormatError("The file must hold a prompt", "a model that is none", "Read it by attnforge.load")
    return found
