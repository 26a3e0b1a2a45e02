r"""Keys in shards: a softmax over all of them from what each shard knows, and what merging rounds.

**Statement.** Let a shard s of the keys know $m_s = \max s_k$, $D_s = \sum e^{s_k - m_s}$ and
$N_s = \sum e^{s_k - m_s} v_k$. Two shards know together
$$ m = \max(m_1, m_2), \quad D = e^{m_1 - m} D_1 + e^{m_2 - m} D_2, \quad N = e^{m_1 - m} N_1 + e^{m_2 - m} N_2, $$
which does not depend on the order in which many are merged, and the mean is N / D.

**Rounding.** A run that cuts k keys into P parts (shards, and blocks within them), takes one exponential of every score
in its part, and merges the parts along any binary tree errs by at most what :mod:`attnforge.kernel.softmax` charges
a softmax over k keys in B blocks of 64, if every part has 64 keys at least; so $P \le k/64 \le B$:

- exponentials: a weight is the product of one in its part and of one for each merge on its way, at most $P - 1$ of
  them where merges form a chain; B are charged. The exponential of zero, of the part that has the larger maximum, is
  counted among them;
- their arguments, $s_k - m_s$ and the differences of maxima on the way, are not positive and telescope to $s_k - m$,
  so that what subtractions round adds up to what is charged one subtraction. Maxima are compared, not rounded;
- sums: in its part a term passes a product and at most $k_s - 1$ additions, then at most $P - 1 \le k - k_s$ merges,
  an addition and a rescaling each: $k - 1$ additions and $P - 1 \le B - 1$ rescalings, which are charged. The tree of
  additions is one of those that finer bounds consider: a factor on the way keeps what a node errs relative to its sum;
- what vanishes: of every weight and of every product what is below the smallest normal number is charged as lost. A
  merge may lose as much of the sum that it scales, if the factor itself does not vanish, which is weights lost. That is
  charged to the largest key of that sum: its weight is $e^0 = 1$ and its value is zero or a normal number, so that its
  own product lost nothing; and no key is the largest of two sums that are scaled, since the sum merged has another.

One division and the cast to the dtype follow, as charged. Half types keep weights, sums and what travels in float32,
which is fewer roundings than are charged. So whoever bounds a dense run has bounded the run in shards, whatever their
number and wherever they are. Parts of fewer keys would have more exponentials and rescalings, and are refused.

>>> [shards_covered(keys) for keys in (63, 64, 127, 128, 10**9)]
[0, 1, 1, 2, 15625000]
>>> part_count(10_000, 4096), part_count(130, 100), part_count(64, 10)
(3, 2, 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.kernel.softmax import BLOCK

Array = npt.NDArray[np.float64]

ASSUMED = "keys in parts of at least 64, merged in any order, wherever they are; the exponential of zero is one"
SERVED = "The sharded kernel needs heads over constant keys, at least 64 a shard"


def shards_covered(keys: int) -> int:
    """Into how many parts so many keys may be cut without rounding by more than is charged."""
    return keys // BLOCK


def part_count(keys: int, at_once: int) -> int:
    """In how many parts of about so many keys a shard is taken, each of them of 64 at least where the shard is."""
    return max(1, min(math.ceil(keys / at_once), shards_covered(keys)))


def check_shards(memories: Sequence[Array | None], shards: int = 1, smallest: float = 0.0) -> None:
    """Raise unless the values (p, v) of all heads, None where one reads tokens, may be cut into so many shards.

    ``smallest`` is what no value is below but zero: the smallest normal number of a dtype.
    """
    if not memories:
        raise RefusalError(SERVED, "heads of few keys, which are written out", "Use 'auto'")
    for values in memories:
        if values is None:
            raise RefusalError(SERVED, "a head that reads other tokens", "Use 'auto'")
        if not 1 <= shards <= shards_covered(len(values)):
            got = f"{shards} shards of a head of {len(values):,} keys"
            raise RefusalError(SERVED, got, f"Use up to {shards_covered(len(values)):,} shards")
        sizes = np.abs(values)
        if bool(((sizes > 0) & (sizes < smallest)).any()):
            got = f"a value of {sizes[sizes > 0].min():.2g}"
            raise RefusalError(f"Values of sharded heads must be zero or at least {smallest:.2g}", got, "Make it zero")
