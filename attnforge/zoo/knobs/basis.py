r"""A random orthogonal basis of every hidden stream.

With U orthogonal, the stream is zU; writers are multiplied by U, readers by $U^T$ (:mod:`.streams`, E = U, R = $U^T$).
Since $U U^T = 1$, every score, value and output is what it was, up to the roundings of products of weights, which a
proof reads from the numbers. What changes is what one sees: no feature of the stream is a register any more, every
matrix is dense, and which head reads whom stands only in products of weights.

U is drawn uniformly (Haar): the Q of a Gaussian matrix, its columns' signs set by the diagonal of R (after Mezzadri
2007).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.network import Network
from attnforge.zoo.knobs.streams import Coordinates, carried, hidden_streams

Array = npt.NDArray[np.float64]


def in_random_basis(network: Network, rng: np.random.Generator) -> Network:
    """The network with every hidden stream in a basis of its own."""
    bases = {stream: orthogonal(stream.width, rng) for stream in hidden_streams(network)}
    return carried(network, {stream: Coordinates(basis, basis.T) for stream, basis in bases.items()})


def orthogonal(size: int, rng: np.random.Generator) -> Array:
    """A uniformly random orthogonal matrix.

    >>> basis = orthogonal(4, np.random.default_rng(0))
    >>> bool(np.allclose(basis @ basis.T, np.eye(4)))
    True
    """
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return np.asarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))
