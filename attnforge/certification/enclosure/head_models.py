r"""Taylor models of heads over constant keys, in exact arithmetic: quotients of sums of exponentials.

With the keys a product of factors (:mod:`attnforge.certification.enclosure.factors`) and one value a key,
$$ \mathrm{head}(x) = \frac{\sum_k V_k \prod_a e^{(a)}_{k_a}(x)}{\prod_a \sum_k e^{(a)}_k(x)},
   \qquad e^{(a)}_k(x) = e^{s_k(x) - \ell(x)} . $$
A common factor $e^{\ell}$ cancels, so $\ell$ is free: the mean of the scores by the weights at the middle keeps the
exponents small. The numerator contracts V with the weights of one factor after another.
"""

from __future__ import annotations

import numpy as np

from attnforge.balls import Up
from attnforge.certification.enclosure.factors import Factor, FactorHead
from attnforge.certification.enclosure.model_layers import centred, least_sum
from attnforge.certification.enclosure.taylor_models import Models


def head_models(head: FactorHead, inputs: Models) -> Models:
    """The head (C,) of inputs (C, D), which lies among its values; where these are unsure, it is by no more."""
    scores = [_scores(factor, inputs) for factor in head.factors]
    weights = [each.exp() for each in scores]
    values = head.values.mid
    found = weights[-1].through(values.reshape(-1, values.shape[-1]).T)
    for weight in reversed(weights[:-1]):
        found = (found.shaped(len(found.rest.values), -1, weight.shape[1]) * weight[:, None]).sum()
    found = found[:, 0]
    for score, weight in zip(scores, weights, strict=True):
        total = weight.sum()
        found = found.over(total, least_sum(score, total))
    lowest, highest = (np.full(found.shape, end) for end in (values.min(), values.max()))
    found = found.between(lowest, highest, found.rest)
    return found.wider(np.full(found.shape, head.values.rad.max()))


def _scores(factor: Factor, inputs: Models) -> Models:
    """The scores (C, p) of one factor, less a polynomial that all share."""
    unsure = inputs.size() @ Up.of(factor.slopes.rad) + Up.of(factor.offsets.rad)
    return centred(inputs.through(factor.slopes.mid).less(-factor.offsets.mid).wider(unsure))
