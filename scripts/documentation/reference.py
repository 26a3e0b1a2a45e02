"""The reference: pages for the functions, classes and errors of the root, and one for each public module.

Names come from ``__all__``; what is said of them, from their docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import attnforge as af
from scripts.tables import table

FOLDER = "api"
BESIDE_THE_ROOT = ("experiments", "runtime", "sklearn")  # public, and imported by those who need them


def pages() -> dict[str, str]:
    """Paths in the site, and the pages."""
    names = [name for name in af.__all__ if name not in af.MODULES]
    errors = [name for name in names if _is(name, Exception)]
    classes = [name for name in names if _is(name, object) and name not in errors]
    functions = [name for name in names if name not in (*errors, *classes)]
    texts = {
        "functions": _listed("Functions", "attnforge", functions),
        "classes": _listed("Classes", "attnforge", classes),
        "errors": _listed("Errors", "attnforge", errors),
        **{name: _module(name) for name in _modules()},
    }
    return {f"{FOLDER}/index.md": _overview(functions, classes, errors)} | {
        f"{FOLDER}/{name}.md": text for name, text in texts.items()
    }


def _overview(functions: list[str], classes: list[str], errors: list[str]) -> str:
    kinds = {"functions": functions, "classes": classes, "errors": errors}
    rows = [
        (f"[`af.{name}`]({kind}.md#attnforge.{name})", _summary(getattr(af, name)))
        for kind, names in kinds.items()
        for name in names
    ]
    modules = [(f"[`attnforge.{name}`]({name}.md)", _summary(_import(name))) for name in _modules()]
    return f"""\
# Reference

`import attnforge as af` gives the names below; each is loaded when it is first used. The package is typed (`py.typed`).

{table(("name", ""), rows)}

{table(("module", ""), modules)}
"""


def _listed(title: str, home: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n".join(entry(home, name) for name in names)


def entry(home: str, name: str) -> str:
    """What mkdocstrings is asked for: the object where it is defined, under its public name.

    By the public name alone a module would be taken where one is called as what it holds.
    """
    value = getattr(importlib.import_module(home), name)
    own = getattr(value, "__qualname__", None)  # of classes and functions
    place = f"{home}.{name}" if f"{home}.{name}" in sys.modules else home
    defined = f"{value.__module__}.{own}" if own else f"{place}.{name}"
    options = f"{{heading: {home}.{name}, toc_label: {name}}}"
    return f"[](){{#{home}.{name}}}\n\n::: {defined}\n    options: {options}\n"


def _module(name: str) -> str:
    path = f"attnforge.{name}"
    names = sorted(_import(name).__all__, key=str.lower)
    return _listed(path, path, names).replace("\n", f"\n\n{inspect.cleandoc(_import(name).__doc__ or '')}\n", 1)


def _modules() -> list[str]:
    folder = Path(str(af.__file__)).parent
    beside = [name for name in BESIDE_THE_ROOT if (folder / name).is_dir() or (folder / f"{name}.py").is_file()]
    return [*af.MODULES, *beside]


def _import(name: str) -> ModuleType:
    return importlib.import_module(f"attnforge.{name}")


def _is(name: str, kind: type) -> bool:
    value: Any = getattr(af, name)
    return isinstance(value, type) and issubclass(value, kind)


def _summary(documented: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(documented.__doc__ or "").partition("\n\n")[0].split())
