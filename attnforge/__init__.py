"""attnforge compiles functions into softmax-attention weights, and proves how close they are.

Names are loaded when they are first used, so that ``import attnforge`` and the command line's help cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from . import anchors as anchors
    from . import constructions as constructions
    from . import export as export
    from . import in_context as in_context
    from . import network as network
    from . import plot as plot
    from . import programs as programs
    from . import zoo as zoo
    from .certification import Certificate as Certificate
    from .compiler import Compiled as Compiled
    from .compiler import attack as attack
    from .compiler import certify as certify
    from .compiler import compile as compile
    from .compiler import load as load
    from .compiler import measure as measure
    from .compiler import polish as polish
    from .compiler.diagnosing import diagnose as diagnose
    from .compiler.optimality import optimality as optimality
    from .effort import Effort as Effort
    from .errors import AttnforgeError as AttnforgeError
    from .errors import CertificateError as CertificateError
    from .errors import DomainError as DomainError
    from .errors import FileFormatError as FileFormatError
    from .errors import OutOfTimeError as OutOfTimeError
    from .errors import RefusalError as RefusalError
    from .errors import TargetError as TargetError
    from .errors import ToleranceError as ToleranceError
    from .experiments.function_sweep import sweep as sweep
    from .measurement.diagnosis import AttentionWeights as AttentionWeights
    from .measurement.diagnosis import Diagnosis as Diagnosis
    from .model_file import check as check
    from .network import Network as Network
    from .targets import Box as Box
    from .targets import Lipschitz as Lipschitz
    from .targets.tracing import formula as formula

HOMES = {
    "attnforge.certification": ("Certificate",),
    "attnforge.compiler": ("Compiled", "attack", "certify", "compile", "load", "measure", "polish"),
    "attnforge.compiler.diagnosing": ("diagnose",),
    "attnforge.compiler.optimality": ("optimality",),
    "attnforge.effort": ("Effort",),
    "attnforge.errors": (
        "AttnforgeError",
        "CertificateError",
        "DomainError",
        "FileFormatError",
        "OutOfTimeError",
        "RefusalError",
        "TargetError",
        "ToleranceError",
    ),
    "attnforge.experiments.function_sweep": ("sweep",),
    "attnforge.measurement.diagnosis": ("AttentionWeights", "Diagnosis"),
    "attnforge.model_file": ("check",),
    "attnforge.network": ("Network",),
    "attnforge.targets": ("Box", "Lipschitz"),
    "attnforge.targets.tracing": ("formula",),
}
MODULES = ("anchors", "constructions", "export", "in_context", "network", "plot", "programs", "zoo")

__all__ = sorted([*MODULES, *(name for names in HOMES.values() for name in names)])


if not TYPE_CHECKING:  # else every misspelt name would have a type

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("attnforge")
            except PackageNotFoundError:
                return "0+unknown"
        if name in MODULES:
            return importlib.import_module(f"attnforge.{name}")
        for home, names in HOMES.items():
            if name in names:
                return getattr(importlib.import_module(home), name)
        raise AttributeError(f"module 'attnforge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
