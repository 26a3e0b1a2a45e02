"""Whether there is time to compile a loop: numba does it at the first use on a machine, and keeps what it made."""

from __future__ import annotations

import sys

from attnforge.effort import seconds_left

SECONDS = 20.0  # twice what the longest of the loops was seen to take


def is_affordable(module: str) -> bool:
    """Whether the loops of this module were asked before, or may be compiled before the time is up.

    >>> from attnforge.effort import until
    >>> is_affordable("attnforge.runtime.no_such_loop")
    True
    >>> with until(6):
    ...     is_affordable("attnforge.runtime.no_such_loop")
    False
    """
    return module in sys.modules or seconds_left() > SECONDS
