"""Where all meet: choose a construction, size it, build it, certify it, wrap it, save it."""

from attnforge.compiler.certifying import certify
from attnforge.compiler.compile import compile
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.loading import load
from attnforge.compiler.measuring import measure

__all__ = ["Compiled", "certify", "compile", "load", "measure"]
