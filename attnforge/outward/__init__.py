"""Outward rounding: numbers that carry a proof of their own error.

``arrays`` holds midpoint-radius arrays over NumPy (fast, for weights), ``upward`` upper bounds that only grow, ``real``
wraps python-flint's ``arb`` (tight, for scalars and series), ``maximum`` bounds the maximum of a function of one real
variable, ``machine`` says what each dtype does to a number.
"""

from attnforge.outward.arrays import Balls, add_up, down, gamma, product_up, up
from attnforge.outward.machine import MACHINES, DType, Machine, dtype_name, machine, round_to
from attnforge.outward.maximum import supremum
from attnforge.outward.real import ball, interval, lower, precision, upper
from attnforge.outward.upward import Up, spectral_norm, sum_rounding

__all__ = [
    "MACHINES",
    "Balls",
    "DType",
    "Machine",
    "Up",
    "add_up",
    "ball",
    "down",
    "dtype_name",
    "gamma",
    "interval",
    "lower",
    "machine",
    "precision",
    "product_up",
    "round_to",
    "spectral_norm",
    "sum_rounding",
    "supremum",
    "up",
    "upper",
]
