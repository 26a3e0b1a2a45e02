"""Programs: what every head of a program attends to on a sequence, layer by layer, and what every register holds."""

from __future__ import annotations

from typing import Any

from attnforge import programs
from attnforge.errors import TargetError
from attnforge.network import Attention
from attnforge.progress import Told
from attnforge.web.limits import TOKENS
from attnforge.web.packing import packed_weights
from attnforge.web.requests import Sequence


def program(asked: Sequence, tell: Told) -> dict[str, Any]:
    """Result, attention maps and registers of a program of the library on a sequence."""
    entry = programs.library.get(asked.program)
    if entry is None:
        raise TargetError("A program is one of the library", asked.program, f"Use {', '.join(programs.library)}")
    known = {str(token): token for token in entry.vocabulary}
    tokens = [known.get(token, token) for token in asked.tokens]
    tell(0.0, "compiling and proving")
    net = programs.compile(entry, max_length=TOKENS)
    trace = net.trace(tokens)
    return {
        "description": entry.description,
        "vocabulary": list(known),
        "tokens": asked.tokens,
        "result": [_text(value) for value in net(tokens)],
        "layers": net.layers,
        "maps": _maps(net, tokens),
        "registers": [
            {
                "name": register.name,
                "layer": register.layer,
                "values": [_text(value) for value in register.exact],
                "error": register.error,
                "bound": register.bound,
            }
            for register in trace.registers
        ],
        "certificate": {
            "status": net.certificate.status,
            "bound": net.certificate.bound,
            "statement": str(net.certificate).removeprefix(f"{net.certificate.status}: "),
            "parts": {},
            "assumptions": list(net.certificate.assumptions),
        },
        "facts": {
            "construction": asked.program,
            "layers": net.layers,
            "heads": net.heads,
            "parameters": net.parameters,
            "dtype": net.dtype,
        },
        "python": "\n".join(
            [
                "from attnforge import programs",
                "",
                f"net = programs.compile(programs.library[{asked.program!r}], max_length={TOKENS})",
                f"print(net({tokens!r}))",
                f"print(net.trace({tokens!r}))",
            ]
        ),
    }


def _maps(net: programs.ProgramNetwork, tokens: list[Any]) -> list[dict[str, Any]]:
    """Name, layer and weights (query, key) of every head over tokens; constant keys come first."""
    layers = [layer for layer in net.network.layers if isinstance(layer, Attention)]
    found = []
    for depth, weights in enumerate(net.attention(tokens), start=1):
        for register, head, given in zip(net.layout.written(depth), layers[depth - 1].heads, weights, strict=True):
            if head.key_rows is not None:
                constants = given.shape[1] - len(tokens)
                found.append(
                    {"layer": depth, "name": register.name, "constants": constants, "weights": packed_weights(given)}
                )
    return found


def _text(value: Any) -> str:
    return "∅" if value is None else "yes" if value is True else "no" if value is False else str(value)
