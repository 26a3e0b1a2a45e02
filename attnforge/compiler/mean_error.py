r"""The L_p error of a compiled target, $(\int \max_k |net(x) - f(x)|_k^p\,dx)^{1/p}$, by quadrature: an estimate.

The network runs as it is, in its dtype, with what its softmax smooths where cells meet. Panels start from halves of the
cells, with more nodes than the averages were computed with, so that neither errs where the other does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.certification.certificate import Certificate, Estimate, target_digest
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.runnable import Runnable, Uncertified
from attnforge.network import Network, digest
from attnforge.targets import Target
from attnforge.targets.quadrature import quadrature
from attnforge.theorems.cell_averages import cell_boxes, unchecked_values

Array = npt.NDArray[np.float64]

TOLERANCE = 1e-3
WORK = 2**28  # pairs of a node and a key to spend on refinement
MOST = 2**32  # beyond, the cells are too many: about a minute
CHUNK = 2**23  # of them at a time
NODES = 2**18  # to spend, where keys are few


def certified_in_mean(
    network: Network, target: Target, construction: str, counts: tuple[int, ...], exponent: float, dtype: str
) -> Compiled:
    """The network with a certificate of status ``sampled`` whose estimate is the L_p error."""
    box = target.domain
    error, doubt = mean_error(Uncertified(network, target, dtype), counts, exponent)
    assumption = (
        f"the error is an integral by quadrature, good to about {doubt:.1g} of itself: an estimate, not a bound"
    )
    certificate = Certificate(
        status="sampled",
        bound=None,
        norm=f"L{exponent:g}",
        parts={},
        assumptions=(assumption,),
        estimate=Estimate(error, ()),
        dtype=dtype,
        domain=tuple(zip(box.lower.ravel().tolist(), box.upper.ravel().tolist(), strict=True)),
        digest=digest(network),
        target=target_digest(target),
    )
    return Compiled(network, target, certificate, construction, dtype)


def mean_error(compiled: Runnable, counts: tuple[int, ...], exponent: float) -> tuple[float, float]:
    """The L_p norm of net - f, by quadrature on halves of the cells, and its relative doubt."""
    values = unchecked_values(compiled.target)
    step = max(1, CHUNK // compiled.anchors)

    def gap(points: Array) -> Array:
        """|net - f| (N, 1), the largest entry."""
        parts = [points[i : i + step] for i in range(0, len(points), step)]
        runs = [compiled.at_points(part.reshape(-1, *compiled.domain.shape)).reshape(len(part), -1) for part in parts]
        return np.asarray(np.abs(np.concatenate(runs) - values(points)).max(axis=1, keepdims=True))

    lower, upper = cell_boxes(compiled.target, tuple(2 * count for count in counts))
    gaps = quadrature(
        gap,
        lower,
        upper,
        monitor=lambda size: size**exponent,
        rtol=TOLERANCE,
        enough=min(NODES, WORK // compiled.anchors),
        most=max(1, MOST // compiled.anchors),
        extra=1,
    )
    return float(gaps.integral(gaps.values[:, 0] ** exponent) ** (1 / exponent)), gaps.doubt / exponent
