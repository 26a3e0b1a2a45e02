"""A program over sequences, compiled, run, traced and drawn: two kinds of brackets, nested at most four deep.

Run ``.venv/bin/python examples/programs.py``: it prints report and trace, and writes ``docs/images/programs.png``.
"""

from __future__ import annotations

from pathlib import Path

import attnforge as af

IMAGE = Path(__file__).parent.parent / "docs" / "images" / "programs.png"


def main() -> None:
    """Print and draw."""
    net = af.programs.compile(af.programs.library["dyck2"], max_length=16)
    sequence = list("([])(])")
    print(net.report())
    print(net.trace(sequence))
    print("".join(sequence), "->", "".join(net(sequence)))
    af.plot.program(net, sequence).savefig(IMAGE, dpi=150)


if __name__ == "__main__":
    main()
