"""Certificates of networks that run an algorithm on their prompt: for one prompt, and for all prompts of a data box."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.certification.certificate import Certificate, arithmetic, target_digest
from attnforge.certification.in_context.box import DataBox, box_drift
from attnforge.certification.in_context.prompt import prompt_drift
from attnforge.certification.in_context.reading import Step, read_block
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Network, digest, flatten, rounded
from attnforge.network.flatten import is_weight
from attnforge.outward import add_up, machine
from attnforge.targets.in_context import Iteration, PromptTarget

Array = npt.NDArray[np.float64]

ROOM = 1 + 2.0**-20  # left to a checker, which adds up the same terms in another order and with slacks of its own
EXAMPLES = 1024  # that a certificate of a data box covers where their number is not given

KERNEL = (
    "weighted sums over keys are accumulated in the order of the keys, in one to sixteen interleaved running sums, at "
    "once or in blocks of 512, and normalised in the end; exponentials in float64 are within 1 unit in the last place"
)
ORDERED = (
    "tokens stand as net.prompt(X, y) puts them; weighted sums over them are accumulated in that order, in 1, 2, 4, 8 "
    "or 16 interleaved running sums, at once or in blocks of 512, and normalised in the end; exponentials in float64 "
    "are within 1 unit in the last place"
)
UNKNOWN = "no data_bound was given: net.certify(X, y) certifies one prompt"


def certify_box(network: Network, target: Iteration, dtype: str) -> Certificate:
    """A bound of |network - exact weights|, entry by entry, for all examples within the target's data bound."""
    if target.data_bound is None:
        raise RefusalError("A certificate for all prompts needs a bound of the data", "none", UNKNOWN)
    examples = target.examples or EXAMPLES
    values = target.data_bound if target.has_numbers else 1.0
    box = DataBox(target.data_bound, values, examples)
    steps = read_steps(network, target, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow becomes an infinite bound, and is refused
        parts = box_drift(steps, target, machine(dtype), box)
    reach = f"prompts of {'' if target.examples else 'at most '}{examples:,} examples"
    domain = ((-target.data_bound, target.data_bound),)
    if target.spectrum is None:
        return certificate_of(network, target, dtype, parts, (reach, KERNEL), domain)
    said = (reach, target.condition, KERNEL)
    return certificate_of(network, target, dtype, parts, said, domain, status="conditional")


def certify_prompt(
    network: Network, target: Iteration, dtype: str, x: Array, y: Array, sample_weight: Array | None = None
) -> Certificate:
    """A bound of |network - exact weights|, entry by entry, for examples x (n, d) and y (n,) of some weights (n,)."""
    steps = read_steps(network, target, dtype)
    inputs, labels = target.problem(x, y, sample_weight)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow becomes an infinite bound, and is refused
        found = prompt_drift(steps, target, machine(dtype), inputs, labels)
    given = (x, y) if sample_weight is None else (x, y, sample_weight)
    data = hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in given)).hexdigest()
    scaled = "" if sample_weight is None else ", times the roots of their weights as float64 has these products"
    reach = f"one prompt: the {len(x):,} examples with SHA-256 {data[:16]}{scaled}"
    drift: dict[str, Any] = {"step": found.step, "contraction": found.contraction, "minimiser": found.minimiser}
    return certificate_of(network, target, dtype, found.parts, (reach, ORDERED), (), **drift)


def read_steps(network: Network, target: Iteration, dtype: str) -> list[Step]:
    """Every step of the network, as it runs in the dtype; blocks that are alike are read once."""
    run = rounded(network, dtype)
    for name, array in flatten(run)[1].items():
        if not np.all(np.isfinite(array)):
            raise RefusalError(f"Every weight must fit {dtype}", f"an entry of {name} that does not", "Use a wider one")
        if is_weight(name) and not _is_moderate(array, dtype):
            got = f"an entry of {name} beyond the root of the largest number, or its inverse"
            raise RefusalError("What tokens become must neither overflow nor underflow", got, "Rescale the weights")
    if run.features != target.features.width or run.tokens is not None or run.context is not None:
        got = f"{run.features} features, {run.tokens} tokens, second input {run.context}"
        raise CertificateError(f"The network takes any number of tokens of {target.features.width} features", got)
    length, rest = divmod(len(run.layers), target.steps)
    if rest or not length:
        got = f"{len(run.layers)} layers for {target.steps} steps"
        raise CertificateError("Every step is one block of as many layers", got, "Rebuild the network")
    read: dict[tuple[int, ...], Step] = {}
    found = []
    for t in range(target.steps):
        block = run.layers[t * length : (t + 1) * length]
        same = tuple(id(layer) for layer in block)  # layers of equal content are one object after rounding
        if same not in read:
            read[same] = read_block(block, target.features)
        found.append(read[same])
    return found


def _is_moderate(array: Array, dtype: str) -> bool:
    """Whether products with data of common sizes stay within the range; float16 is left to its data."""
    size, most = np.abs(array[array != 0]), math.sqrt(machine(dtype).largest)
    return dtype == "float16" or bool(np.all((size <= most) & (size >= 1 / most)))


def certificate_of(
    network: Network,
    target: PromptTarget,
    dtype: str,
    parts: Mapping[str, float],
    assumptions: tuple[str, ...],
    domain: tuple[tuple[float, float], ...],
    status: Literal["proved", "conditional"] = "proved",
    **drift: Any,
) -> Certificate:
    """The certificate whose bound is the sum of the parts; refused where that is not finite."""
    parts = {name: part * ROOM for name, part in parts.items()}
    bound = add_up(*parts.values())
    if not np.isfinite(bound):
        raise RefusalError(
            "The bound of this network must be finite", "infinity", "Use a smaller step or a wider dtype"
        )
    said = (arithmetic(dtype), *assumptions)
    return Certificate(
        status, bound, "sup", parts, said, dtype, domain, digest(network), target_digest(target), **drift
    )
