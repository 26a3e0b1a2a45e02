r"""Disturbed scores: what a softmax does when every score is off by at most d.

Weights $w_k \propto e^{s_k}$, disturbed $w'_k \propto e^{s_k + \delta_k}$, $|\delta_k| \le d$: each ratio
$w'_k/w_k$ lies in $[e^{-2d}, e^{2d}]$, so for any reference value v
$$ |\sum w'_k v_k - \sum w_k v_k| \le (e^{2d} - 1) \sum_k w_k |v_k - v| . $$
The mass p of a set of keys moves by at most $(e^{2d} - 1)\,p(1-p)$: its log-odds move by at most 2d.
"""

from __future__ import annotations

from attnforge.outward import ball, precision, upper


def ratio_excess(disturbance: float) -> float:
    """e^{2d} - 1, rounded up."""
    with precision():
        return upper((2 * ball(disturbance)).expm1()) if disturbance < 300 else float("inf")
