"""Choose, size, build, certify, wrap, save: the place where all parts meet."""

from attnforge.compiler.certifying import certify, proof_cost
from attnforge.compiler.compile import compile
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.loading import load
from attnforge.compiler.measuring import attack, measure
from attnforge.compiler.polishing import polish

__all__ = ["Compiled", "attack", "certify", "compile", "load", "measure", "polish", "proof_cost"]
