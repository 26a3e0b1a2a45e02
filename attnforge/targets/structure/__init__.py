r"""Structure in targets of several inputs: functions of one form, and sums of functions of few inputs.

A head over D inputs needs a grid in D dimensions, a head over one form of them a row of anchors. So before anything is
built a target is searched for a ridge, $f(x) = g(w \cdot x)$, and for a sum of terms that see few inputs each.
"""

from attnforge.targets.structure.find import find_structure
from attnforge.targets.structure.found import Structure
from attnforge.targets.structure.given import given_sum
from attnforge.targets.structure.term import Term

__all__ = ["Structure", "Term", "find_structure", "given_sum"]
