r"""Two keys are a logistic function: how far they are from the one that is wanted, whatever their numbers.

Scores $s_0, s_1$ with values $v_0, v_1$ make $v_1 + (v_0 - v_1)\,\sigma(s_0 - s_1)$. Wanted is $b + a\,\sigma(z)$. With
$\theta = \sigma(s_0 - s_1)$ between 0 and 1,
$$ v_1 + (v_0 - v_1)\theta - b - a\,\sigma(z) = (1 - \theta)(v_1 - b) + \theta(v_0 - a - b) + a(\theta - \sigma(z)), $$
so that, as $\sigma' \le 1/4$, the error is at most
$$ \max(|v_1 - b|, |v_0 - a - b|) + \frac{|a|}4\,|s_0 - s_1 - z| . $$
Where a = y itself is wanted, and b = 0, it is at most $\max(|v_1|, |v_0 - y|) + \frac{|y|}4\,|s_0 - s_1 - y|$: the SiLU
$y\,\sigma(y)$, if $v_0$ follows y.
"""

from __future__ import annotations

from flint import arb

LOGISTIC = {"sigmoid": (1, 1, 0), "tanh": (2, 2, -1)}  # factor c, scale a and offset b of b + a sigmoid(c y)


def logistic_error(function: str, slope: arb, apart: arb, values: tuple[arb, arb], reach: arb) -> arb:
    """A bound of the error, for scores that differ by slope * y + apart and y between -reach and reach.

    >>> logistic_error("tanh", arb(2), arb(0), (arb(1), arb(-1)), arb(5))
    0
    """
    factor, scale, offset = LOGISTIC[function]
    first, second = values
    ends = abs(second - offset).max(abs(first - scale - offset))
    return (ends + arb(scale) / 4 * (abs(slope - factor) * reach + abs(apart))).upper()


def silu_error(slope: arb, apart: arb, values: tuple[tuple[arb, arb], tuple[arb, arb]], reach: arb) -> arb:
    """The same for y sigmoid(y), by values rate * y + rest, given as (rate, rest).

    >>> silu_error(arb(1), arb(0), ((arb(1), arb(0)), (arb(0), arb(0))), arb(5))
    0
    """
    (rate, rest), (other_rate, other) = values
    ends = (abs(rate - 1) * reach + abs(rest)).max(abs(other_rate) * reach + abs(other))
    return (ends + reach / 4 * (abs(slope - 1) * reach + abs(apart))).upper()
