"""The proof for heads with fitted values: the error in exact arithmetic by enclosure, and what rounding adds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, precision
from attnforge.certification.enclosure.affine_heads import affine_head, read_heads
from attnforge.certification.enclosure.one_input import BITS, supremum
from attnforge.certification.enclosure.run import rounding
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.errors import CertificateError
from attnforge.network import Network, check_architecture
from attnforge.targets import Box, Formula, Target

Array = npt.NDArray[np.float64]

MOST_INPUTS = 4
LOOSE = 10.0  # a bound so many times the error attained is not worth stating: the enclosure came to no end
WORK, FEWEST = 2.5e7, 1000  # cells times keys, about 20 seconds of two inputs; and the cells a proof needs at least
CELLS = 20_000  # boxes looked at; a number, not a time, so that a proof can be repeated elsewhere


def is_enclosed(target: Target) -> bool:
    """Whether there is an enclosure for this kind of target: formulas of up to four inputs."""
    return isinstance(target, Formula) and target.domain.shape[0] <= MOST_INPUTS


def bound_fitted(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """``fit``: the supremum of |heads - formula| in exact arithmetic; ``rounding``: what the run adds."""
    if not isinstance(target, Formula) or not is_enclosed(target):
        raise CertificateError("This proof covers formulas of few inputs", target.describe(), "Measure it instead")
    if network.features != domain.lower.size or check_architecture(network) != 1:
        got = f"{network.features} inputs and {check_architecture(network)} outputs"
        raise CertificateError(f"The network must take {domain.lower.size} inputs and return one value", got)
    bound, lower, upper, sizes = (_on_a_line if domain.lower.size == 1 else _on_a_box)(network, target, domain)
    encode, heads = read_heads(network)
    return {"fit": bound, "rounding": rounding(encode, heads, lower, upper, sizes, machine)}


def _on_a_line(network: Network, target: Formula, domain: Box) -> tuple[float, Array, Array, Array]:
    """The bound, and the cells with the output's size on them."""
    encode, heads = read_heads(network)
    with precision(BITS):
        exact = tuple(affine_head(encode, head, 1) for head in heads)
    found = supremum(exact, target.tree, target.names[0], float(domain.lower[0]), float(domain.upper[0]))
    lower, upper = (np.array([[getattr(cell, end)] for cell in found.cells]) for end in ("lower", "upper"))
    return found.bound, lower, upper, np.array([cell.size for cell in found.cells])


def _on_a_box(network: Network, target: Formula, domain: Box) -> tuple[float, Array, Array, Array]:
    """The same on boxes; infinity where the heads are too large for enough of them to be looked at."""
    keys = sum(head.memory_size for head in network.heads)
    cells = min(CELLS, int(WORK / (keys * 4.0 ** (domain.lower.size - 2))))
    if cells < FEWEST:
        return math.inf, domain.lower[None], domain.upper[None], np.array([math.inf])
    found = supremum_box(network, target.tree, target.names, domain.lower, domain.upper, cells=cells, seconds=math.inf)
    loose = found.bound > max(LOOSE * found.seen, 1e-9 * float(found.cells.size.max()))
    return math.inf if loose else found.bound, found.cells.lower, found.cells.upper, found.cells.size
