"""The import arrows of the design, and what no module may do. Each rule is also seen to fail on a small bad package."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "attnforge"

# From the bottom up. A folder may import itself and every lower row, nothing in its own row or above.
LEVELS = (
    {"errors"},
    {"arrays", "display", "effort", "files", "parallel", "progress"},
    {"balls"},
    {"network", "targets", "lemmas"},
    {"anchors", "labels"},
    {"theorems", "runtime", "certification"},
    {"export", "plot", "measurement", "model_file"},
    {"compiler"},
    {"experiments", "zoo"},
    {"sklearn", "web"},
    {"cli"},
)
# Modules beside the folders, and the folder each of them belongs to. The empty name is the root __init__.
DOORS = {
    "": "compiler",
    "constructions": "compiler",
    "in_context": "compiler",
    "programs": "compiler",
    "__main__": "cli",
}
NAMED_BY_THE_ROOT = {
    "experiments",
    "zoo",
}  # which loads them when they are first used, and names them for type checkers
HEIGHT = {folder: height for height, level in enumerate(LEVELS) for folder in level}

TORCH_AT_MODULE_LEVEL = {"runtime", "measurement", "export", "experiments", "web"}
TORCH_NEVER = {
    "errors",
    "effort",
    "display",
    "files",
    "parallel",
    "progress",
    "balls",
    "network",
    "lemmas",
    "anchors",
    "labels",
    "theorems",
    "certification",
}

PROVER, CHECKER = "attnforge.certification", "attnforge.certification.checker"
CERTIFICATE = "attnforge.certification.certificate"

NAMELESS = {"utils", "util", "helpers", "helper", "misc", "common", "core"}
UNPICKLERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
EVALUATORS = {"sympify", "parse_expr", "lambdify"}  # as a name, an attribute or an import
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios"}  # Windows has none of them
POSIX_CALLS = {"fork", "getloadavg", "getuid", "killpg", "pread", "pwrite", "sched_getaffinity", "setsid", "uname"}
BUILTIN_EVALUATORS = {"eval", "exec"}  # as a name only: module.eval() is torch's word for something else


@dataclass(frozen=True)
class Import:
    """One imported name, its line, and when it runs: at import ("module"), on a call ("function"), never ("typing")."""

    target: str
    line: int
    when: str


@dataclass(frozen=True)
class Module:
    path: str
    name: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """What a relative import is relative to."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    @property
    def folder(self) -> str:
        return folder_of(self.name)


def folder_of(name: str) -> str:
    first = name.removeprefix(PACKAGE).removeprefix(".").partition(".")[0]
    return DOORS.get(first, first)


def parse(sources: Mapping[str, str]) -> list[Module]:
    """Modules from a mapping of posix path (attnforge/lemmas/tail.py) to source text."""

    def name(path: str) -> str:
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    return [Module(path, name(path), ast.parse(text, path)) for path, text in sorted(sources.items())]


def is_typing_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def walk(node: ast.AST, when: str = "module") -> Iterator[tuple[ast.AST, str]]:
    """Every node below, with the moment at which it runs."""
    for field, value in ast.iter_fields(node):
        inner = when
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and field == "body":
            inner = "function"
        elif is_typing_guard(node) and field == "body":
            inner = "typing"
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child, inner
                yield from walk(child, inner)


def imports(module: Module, known: set[str]) -> list[Import]:
    """Everything the module imports, relative names resolved; ``from a import b`` is a.b where that is a module."""
    return [
        Import(target, node.lineno, when)
        for node, when in walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
        for target in targets(node, module, known)
    ]


def targets(node: ast.Import | ast.ImportFrom | ast.Call, module: Module, known: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = absolute("." * node.level + (node.module or ""), module.package)
        full = [f"{base}.{alias.name}" for alias in node.names]
        return [name if name in known else base for name in full]
    if is_dynamic_import(node) and node.args and isinstance(node.args[0], ast.Constant):
        return [absolute(str(node.args[0].value), module.package)]
    return []


def is_dynamic_import(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] in {"import_module", "__import__"}


def absolute(name: str, package: str) -> str:
    dots = len(name) - len(name.lstrip("."))
    if dots == 0:
        return name
    parents = package.split(".")[: len(package.split(".")) - dots + 1]
    return ".".join([*parents, *filter(None, [name[dots:]])])


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


# The rules: each takes all modules and lists what is wrong as "path:line: sentence".


def import_arrows(modules: list[Module]) -> list[str]:
    known = {module.name for module in modules}
    wrong = []
    for module in modules:
        here = module.folder
        if here not in HEIGHT:
            wrong.append(f"{module.path}:1: {here} is not a folder of the design")
            continue
        for found in imports(module, known):
            there = folder_of(found.target)
            if not inside(found.target, PACKAGE) or there == here:
                continue
            if module.name == PACKAGE and found.when == "typing" and there in NAMED_BY_THE_ROOT:
                continue
            place = f"{module.path}:{found.line}:"
            if there not in HEIGHT:
                wrong.append(f"{place} {found.target} is not in a folder of the design")
            elif HEIGHT[there] > HEIGHT[here]:
                wrong.append(f"{place} {here} imports {there}, upwards")
            elif HEIGHT[there] == HEIGHT[here]:
                wrong.append(f"{place} {here} imports {there}, across a bar")
    return wrong


def prover_and_checker_are_apart(modules: list[Module]) -> list[str]:
    """Neither imports the other: of certification they share the certificate alone."""
    known = {module.name for module in modules}
    wrong = []
    for module in modules:
        if module.folder != "certification":
            continue
        for found in imports(module, known):
            if not inside(found.target, PROVER) or inside(found.target, CERTIFICATE):
                continue
            if inside(module.name, CHECKER) != inside(found.target, CHECKER):
                side = "checker" if inside(module.name, CHECKER) else "prover"
                wrong.append(f"{module.path}:{found.line}: the {side} imports {found.target}")
    return wrong


def literal_imports(modules: list[Module]) -> list[str]:
    """A computed import hides an arrow. The root may have one: it may import all that lies below it."""
    return [
        f"{module.path}:{node.lineno}: an import whose name is computed"
        for module in modules
        if module.name != PACKAGE
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and is_dynamic_import(node)
        and not (node.args and isinstance(node.args[0], ast.Constant))
    ]


def no_import_cycles(modules: list[Module]) -> list[str]:
    """Imports inside functions count; imports for type checkers only do not, as they never run."""
    known = {module.name for module in modules}
    graph = {
        module.name: {i.target for i in imports(module, known) if i.when != "typing" and i.target in known}
        for module in modules
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["import cycle: " + " <- ".join(error.args[1])]
    return []


def torch_where_allowed(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{found.line}: {module.folder} imports torch at {found.when} level"
        for module in modules
        for found in imports(module, set())
        if inside(found.target, "torch")
        and (
            (found.when == "module" and module.folder not in TORCH_AT_MODULE_LEVEL)
            or (found.when == "function" and module.folder in TORCH_NEVER)
        )
    ]


def nothing_evaluates_or_unpickles(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{getattr(node, 'lineno', 1)}: {reason}"
        for module in modules
        for node in ast.walk(module.tree)
        for reason in dangers(node)
    ]


def dangers(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if name in BUILTIN_EVALUATORS | EVALUATORS:
            yield f"uses {name}"
        case ast.Attribute(attr=name) if name in EVALUATORS:
            yield f"uses {name}"
        case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in BUILTIN_EVALUATORS:
            yield f"uses {name}"
        case ast.ImportFrom(module=source, names=aliases):
            yield from (f"imports {a.name}" for a in aliases if a.name in EVALUATORS | BUILTIN_EVALUATORS | UNPICKLERS)
            if (source or "").partition(".")[0] in UNPICKLERS:
                yield f"imports {source}"
        case ast.Import(names=aliases):
            yield from (f"imports {a.name}" for a in aliases if a.name.partition(".")[0] in UNPICKLERS)
        case ast.Call(func=func, keywords=keywords):
            given = {k.arg: getattr(k.value, "value", None) for k in keywords}
            if given.get("allow_pickle", False) is not False:
                yield "may unpickle: allow_pickle must be False"
            if ast.unparse(func) == "torch.load" and given.get("weights_only") is not True:
                yield "may unpickle: torch.load without weights_only=True"


def runs_on_every_system(modules: list[Module]) -> list[str]:
    """What only POSIX has is imported where its absence is expected, and called nowhere."""
    return [
        f"{module.path}:{node.lineno}: {node_name} is not on every system"
        for module in modules
        if not module.path.startswith("attnforge/web/")  # whose server forks: it runs on POSIX alone
        for node, guarded in with_guards(module.tree)
        for node_name in posix_names(node)
        if isinstance(node, ast.Attribute) or not guarded
    ]


def with_guards(node: ast.AST, guarded: bool = False) -> Iterator[tuple[Any, bool]]:
    """Every node below, and whether it stands where an ImportError is expected."""
    for child in ast.iter_child_nodes(node):
        expects = isinstance(child, ast.With | ast.Try) and "ImportError" in ast.unparse(child)
        yield child, guarded or expects
        yield from with_guards(child, guarded or expects)


def posix_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=aliases):
            yield from (alias.name for alias in aliases if alias.name in POSIX_MODULES)
        case ast.ImportFrom(module=source) if source in POSIX_MODULES:
            yield source
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in POSIX_CALLS:
            yield f"os.{name}"


def names_say_what_is_inside(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:1: {part} names no idea"
        for module in modules
        for part in module.name.split(".")[1:]
        if part.strip("_") in NAMELESS
    ]


def every_module_has_a_docstring(modules: list[Module]) -> list[str]:
    return [f"{m.path}:1: no docstring" for m in modules if not (ast.get_docstring(m.tree) or "").strip()]


def every_folder_is_a_package(modules: list[Module]) -> list[str]:
    paths = {module.path for module in modules}
    folders = {path.rpartition("/")[0] for path in paths}
    return [f"{folder}: no __init__.py" for folder in sorted(folders) if f"{folder}/__init__.py" not in paths]


Rule = Callable[[list[Module]], list[str]]
RULES: list[Rule] = [
    import_arrows,
    prover_and_checker_are_apart,
    literal_imports,
    no_import_cycles,
    torch_where_allowed,
    nothing_evaluates_or_unpickles,
    runs_on_every_system,
    names_say_what_is_inside,
    every_module_has_a_docstring,
    every_folder_is_a_package,
]


def by_name(rule: object) -> str:
    return getattr(rule, "__name__", "")


@pytest.fixture(scope="module")
def package() -> list[Module]:
    root = Path(__file__).resolve().parents[1]
    return parse({p.relative_to(root).as_posix(): p.read_text("utf-8") for p in (root / PACKAGE).rglob("*.py")})


def test_the_package_is_found(package: list[Module]) -> None:
    assert {"attnforge", "attnforge.errors"} <= {module.name for module in package}


def test_the_types_are_shipped() -> None:
    root = Path(__file__).resolve().parents[1]
    assert (root / PACKAGE / "py.typed").is_file()
    assert 'packages = ["attnforge"]' in (root / "pyproject.toml").read_text("utf-8")  # a wheel has all of its files


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_the_package_obeys(rule: Rule, package: list[Module]) -> None:
    assert rule(package) == []


def drawn(page: str) -> list[str]:
    """The folders of a page's diagram of imports, as one reads it; what is said of a level stands behind two blanks."""
    block = re.search(r"^imports: (.*?)^```", page, re.DOTALL | re.MULTILINE)
    lines = [re.split(r"\s{2,}", line.strip())[0] for line in block[1].splitlines()] if block else []
    return [word for line in lines for word in re.findall(r"\w+", line)]


def misdrawn(page: str, package: list[Module]) -> list[str]:
    """What is wrong with a diagram: folders that are missing or unknown, or that stand above what imports them."""
    names = drawn(page)
    there = {part for module in package for part in module.name.split(".")[1:2]}
    missing = sorted(there - set(names) - {"__main__"})
    unknown = sorted(set(names) - set(HEIGHT) - set(DOORS))
    heights = [HEIGHT[folder_of(f"{PACKAGE}.{name}")] for name in names if name not in unknown]
    return [*missing, *unknown, *(["out of order"] if heights != sorted(heights, reverse=True) else [])]


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_the_diagrams_are_the_levels(name: str, package: list[Module]) -> None:
    text = (Path(__file__).resolve().parents[1] / name).read_text("utf-8")
    assert misdrawn(text, package) == []
    assert misdrawn(text.replace("balls", "marbles"), package) == ["balls", "marbles"]
    assert "out of order" in misdrawn(text.replace("balls", "errors", 1), package)


BAD: list[tuple[Rule, dict[str, str], str]] = [
    (import_arrows, {"attnforge/lemmas/tail.py": "import attnforge.theorems.gate"}, "lemmas imports theorems, upwards"),
    (import_arrows, {"attnforge/lemmas/tail.py": "from ..theorems import gate"}, "lemmas imports theorems, upwards"),
    (
        import_arrows,
        {"attnforge/lemmas/__init__.py": "from ..theorems import gate"},
        "lemmas imports theorems, upwards",
    ),
    (
        import_arrows,
        {"attnforge/lemmas/tail.py": "from .. import theorems", "attnforge/theorems/__init__.py": ""},
        "theorems",
    ),
    (import_arrows, {"attnforge/lemmas/tail.py": "def f():\n    import attnforge.compiler"}, "upwards"),
    (import_arrows, {"attnforge/lemmas/tail.py": "def f():\n    import_module('attnforge.compiler')"}, "upwards"),
    (import_arrows, {"attnforge/lemmas/tail.py": "if TYPE_CHECKING:\n    import attnforge.compiler"}, "upwards"),
    (import_arrows, {"attnforge/lemmas/tail.py": "import attnforge"}, "lemmas imports compiler, upwards"),
    (import_arrows, {"attnforge/compiler/choose.py": "import attnforge.cli"}, "compiler imports cli, upwards"),
    (import_arrows, {"attnforge/__init__.py": "from attnforge import zoo", "attnforge/zoo/__init__.py": ""}, "upwards"),
    (import_arrows, {"attnforge/__init__.py": "if TYPE_CHECKING:\n    from attnforge.cli import main"}, "upwards"),
    (import_arrows, {"attnforge/theorems/gate.py": "from attnforge.runtime import dense"}, "across a bar"),
    (import_arrows, {"attnforge/network/digest.py": "from attnforge.targets import Box"}, "across a bar"),
    (import_arrows, {"attnforge/web/app.py": "import attnforge.cli.main"}, "web imports cli, upwards"),
    (import_arrows, {"attnforge/elsewhere/thing.py": ""}, "not a folder of the design"),
    (import_arrows, {"attnforge/cli/main.py": "import attnforge.elsewhere"}, "not in a folder of the design"),
    (
        prover_and_checker_are_apart,
        {"attnforge/certification/rules.py": "from attnforge.certification.checker.search import answer"},
        "the prover imports attnforge.certification.checker.search",
    ),
    (
        prover_and_checker_are_apart,
        {"attnforge/certification/checker/check.py": "def f():\n    from attnforge.certification.tokens import linear"},
        "the checker imports attnforge.certification.tokens",
    ),
    (literal_imports, {"attnforge/cli/main.py": "importlib.import_module(name)"}, "computed"),
    (
        no_import_cycles,
        {"attnforge/lemmas/a.py": "from attnforge.lemmas import b", "attnforge/lemmas/b.py": "from .a import x"},
        "cycle",
    ),
    (
        no_import_cycles,
        {
            "attnforge/lemmas/a.py": "import attnforge.lemmas.b",
            "attnforge/lemmas/b.py": "def f():\n    from . import a",
        },
        "cycle",
    ),
    (
        no_import_cycles,
        {"attnforge/lemmas/__init__.py": "from .a import f", "attnforge/lemmas/a.py": "from attnforge.lemmas import f"},
        "cycle",
    ),
    (torch_where_allowed, {"attnforge/targets/function.py": "import torch.nn as nn"}, "at module level"),
    (
        torch_where_allowed,
        {"attnforge/targets/function.py": "try:\n    from torch import nn\nexcept E:\n    0"},
        "module",
    ),
    (torch_where_allowed, {"attnforge/targets/function.py": "class A:\n    import torch"}, "at module level"),
    (torch_where_allowed, {"attnforge/theorems/gate.py": "def f():\n    import torch"}, "at function level"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "eval(text)"}, "uses eval"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "run = exec"}, "uses exec"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "builtins.eval(text)"}, "uses eval"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "sympy.sympify(text)"}, "uses sympify"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "from sympy import lambdify as f"}, "lambdify"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "parse_expr(text)"}, "uses parse_expr"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "import pickle"}, "imports pickle"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "from pickle import loads"}, "imports pickle"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "np.load(p, allow_pickle=True)"}, "unpickle"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "np.load(p, allow_pickle=flag)"}, "unpickle"),
    (nothing_evaluates_or_unpickles, {"attnforge/cli/main.py": "torch.load(p)"}, "unpickle"),
    (runs_on_every_system, {"attnforge/parallel.py": "import fcntl"}, "fcntl is not on every system"),
    (runs_on_every_system, {"attnforge/parallel.py": "def f():\n    from resource import x"}, "resource is not"),
    (runs_on_every_system, {"attnforge/parallel.py": "n = len(os.sched_getaffinity(0))"}, "os.sched_getaffinity"),
    (names_say_what_is_inside, {"attnforge/lemmas/_utils.py": ""}, "_utils names no idea"),
    (names_say_what_is_inside, {"attnforge/core/gate.py": ""}, "core names no idea"),
    (every_module_has_a_docstring, {"attnforge/lemmas/tail.py": "x = 1"}, "no docstring"),
    (every_folder_is_a_package, {"attnforge/lemmas/tail.py": ""}, "no __init__.py"),
]


@pytest.mark.parametrize(("rule", "sources", "complaint"), BAD, ids=by_name)
def test_a_rule_can_fail(rule: Rule, sources: dict[str, str], complaint: str) -> None:
    found = rule(parse(sources))
    assert len(found) == 1
    assert complaint in found[0]


GOOD = {
    "attnforge/__init__.py": '"""Root."""\nfrom attnforge import plot\nif TYPE_CHECKING:\n    import attnforge.zoo',
    "attnforge/__main__.py": '"""Door."""\nfrom attnforge.cli import main',
    "attnforge/constructions.py": '"""Public."""\nfrom attnforge.compiler import choose\nfrom .theorems import gate',
    "attnforge/cli/__init__.py": '"""Door."""\nimport attnforge as af\nfrom attnforge.experiments import rates',
    "attnforge/compiler/__init__.py": '"""Meeting place."""',
    "attnforge/compiler/choose.py": '"""Choose."""\nfrom attnforge.runtime.dense import run\nimport attnforge.errors',
    "attnforge/plot/__init__.py": '"""Figures."""\nfrom attnforge.network import Network',
    "attnforge/runtime/__init__.py": '"""Execute."""',
    "attnforge/runtime/dense.py": '"""Dense."""\nimport torch\nmodule.eval()\ntorch.load(p, weights_only=True)',
    "attnforge/parallel.py": '"""Processes."""\nwith suppress(ImportError):\n    import fcntl',
    "attnforge/targets/__init__.py": '"""Targets."""\ndef f():\n    import torch',
    "attnforge/theorems/__init__.py": '"""Theorems."""\nif TYPE_CHECKING:\n    import torch',
    "attnforge/theorems/gate.py": '"""Gate."""\nfrom ..lemmas import tail\nnp.load(p, allow_pickle=False)',
}


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_good_package_passes(rule: Rule) -> None:
    assert rule(parse(GOOD)) == []


def test_typing_only_imports_make_no_cycle() -> None:
    sources = {
        "attnforge/lemmas/a.py": "from . import b",
        "attnforge/lemmas/b.py": "if TYPE_CHECKING:\n    from . import a",
    }
    assert no_import_cycles(parse(sources)) == []
