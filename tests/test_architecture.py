"""The import arrows of the design, what no module may do, and what most tests import. Each rule is seen to fail."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "attnforge"

# From the bottom up. A folder may import itself and every lower row, nothing in its own row or above.
LEVELS = (
    "errors", "arrays display effort files parallel progress", "outward", "expression network", "kernel",
    "targets lemmas", "anchors labels proving",
    "theorems runtime certification", "export plot measurement model_file", "compiler", "experiments zoo",
    "sklearn web", "cli",
)  # fmt: skip
HEIGHT = {folder: height for height, level in enumerate(LEVELS) for folder in level.split()}
# Modules beside the folders, and the folder each of them belongs to. The empty name is the root __init__.
DOORS = {**dict.fromkeys(("", "constructions", "in_context", "programs"), "compiler"), "__main__": "cli"}
NAMED_BY_THE_ROOT = {"experiments", "zoo"}  # loaded when they are first used; the root names them for type checkers

TORCH_AT_MODULE_LEVEL = {"runtime", "measurement", "export", "experiments", "web"}
TORCH_NEVER = set(" ".join(LEVELS[:8]).split()) - {"arrays", "targets", "runtime"}

PROVER, CHECKER = "attnforge.certification", "attnforge.certification.checker"
CERTIFICATE = "attnforge.certification.certificate"

NAMELESS = {"utils", "util", "helpers", "helper", "misc", "common", "core"}
UNPICKLERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
EVALUATORS = {"sympify", "parse_expr", "lambdify"}  # as a name, an attribute or an import
BUILTIN_EVALUATORS = {"eval", "exec"}  # as a name only: module.eval() is torch's word for something else
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios"}  # Windows has none of them
POSIX_CALLS = {"fork", "getloadavg", "getuid", "killpg", "pread", "pwrite", "sched_getaffinity", "setsid", "uname"}


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


def each_import(modules: list[Module]) -> Iterator[tuple[Module, Import]]:
    known = {module.name for module in modules}
    return ((module, found) for module in modules for found in imports(module, known))


def each_node(modules: list[Module]) -> Iterator[tuple[Module, Any, bool]]:
    """All nodes, and whether they stand where an ImportError is expected."""

    def below(node: ast.AST, guarded: bool) -> Iterator[tuple[Any, bool]]:
        for child in ast.iter_child_nodes(node):
            expects = guarded or (isinstance(child, ast.With | ast.Try) and "ImportError" in ast.unparse(child))
            yield child, expects
            yield from below(child, expects)

    return ((module, *found) for module in modules for found in below(module.tree, False))


# The rules: each takes all modules and lists what is wrong as "path:line: sentence".


def import_arrows(modules: list[Module]) -> list[str]:
    unknown = [f"{m.path}:1: {m.folder} is not a folder of the design" for m in modules if m.folder not in HEIGHT]
    found = ((module, each, arrow(module, each)) for module, each in each_import(modules) if module.folder in HEIGHT)
    return unknown + [f"{module.path}:{each.line}: {wrong}" for module, each, wrong in found if wrong]


def arrow(module: Module, found: Import) -> str:
    """What is wrong with one import."""
    here, there = module.folder, folder_of(found.target)
    if not inside(found.target, PACKAGE) or there == here:
        return ""
    if module.name == PACKAGE and found.when == "typing" and there in NAMED_BY_THE_ROOT:
        return ""
    if there not in HEIGHT:
        return f"{found.target} is not in a folder of the design"
    if HEIGHT[there] < HEIGHT[here]:
        return ""
    return f"{here} imports {there}, {'upwards' if HEIGHT[there] > HEIGHT[here] else 'across a bar'}"


def prover_and_checker_are_apart(modules: list[Module]) -> list[str]:
    """Neither imports the other: of certification they share the certificate alone."""
    return [
        f"{module.path}:{found.line}: the {'checker' if checks else 'prover'} imports {found.target}"
        for module, found in each_import(modules)
        for checks in [inside(module.name, CHECKER)]
        if module.folder == "certification" and inside(found.target, PROVER) and not inside(found.target, CERTIFICATE)
        if checks != inside(found.target, CHECKER)
    ]


def literal_imports(modules: list[Module]) -> list[str]:
    """A computed import hides an arrow. The root may have one: it may import all that lies below it."""
    return [
        f"{module.path}:{node.lineno}: an import whose name is computed"
        for module, node, _ in each_node(modules)
        if module.name != PACKAGE and isinstance(node, ast.Call) and is_dynamic_import(node)
        if not (node.args and isinstance(node.args[0], ast.Constant))
    ]


def no_import_cycles(modules: list[Module]) -> list[str]:
    """Imports inside functions count; imports for type checkers only do not, as they never run."""
    graph: dict[str, set[str]] = {module.name: set() for module in modules}
    for module, found in each_import(modules):
        if found.when != "typing" and found.target in graph:
            graph[module.name].add(found.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["import cycle: " + " <- ".join(error.args[1])]
    return []


def torch_where_allowed(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{found.line}: {module.folder} imports torch at {found.when} level"
        for module, found in each_import(modules)
        if inside(found.target, "torch")
        if (found.when == "module" and module.folder not in TORCH_AT_MODULE_LEVEL)
        or (found.when == "function" and module.folder in TORCH_NEVER)
    ]


def nothing_evaluates_or_unpickles(modules: list[Module]) -> list[str]:
    return [f"{m.path}:{node.lineno}: {reason}" for m, node, _ in each_node(modules) for reason in dangers(node)]


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
        f"{module.path}:{node.lineno}: {name} is not on every system"
        for module, node, guarded in each_node(modules)
        if not module.path.startswith("attnforge/web/")  # whose server forks: it runs on POSIX alone
        for name in posix_names(node, guarded)
    ]


def posix_names(node: ast.AST, guarded: bool) -> list[str]:
    match node:
        case ast.Import(names=aliases) if not guarded:
            return [alias.name for alias in aliases if alias.name in POSIX_MODULES]
        case ast.ImportFrom(module=source) if source in POSIX_MODULES and not guarded:
            return [source]
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in POSIX_CALLS:
            return [f"os.{name}"]
    return []


def names_say_what_is_inside(modules: list[Module]) -> list[str]:
    parts = ((module, part) for module in modules for part in module.name.split(".")[1:])
    return [f"{module.path}:1: {part} names no idea" for module, part in parts if part.strip("_") in NAMELESS]


def every_module_has_a_docstring(modules: list[Module]) -> list[str]:
    return [f"{m.path}:1: no docstring" for m in modules if not (ast.get_docstring(m.tree) or "").strip()]


def every_folder_is_a_package(modules: list[Module]) -> list[str]:
    paths = {module.path for module in modules}
    folders = {path.rpartition("/")[0] for path in paths}
    return [f"{folder}: no __init__.py" for folder in sorted(folders) if f"{folder}/__init__.py" not in paths]


Rule = Callable[[list[Module]], list[str]]
RULES: list[Rule] = [
    import_arrows, prover_and_checker_are_apart, literal_imports, no_import_cycles, torch_where_allowed,
    nothing_evaluates_or_unpickles, runs_on_every_system, names_say_what_is_inside, every_module_has_a_docstring,
    every_folder_is_a_package,
]  # fmt: skip


def by_name(rule: object) -> str:
    return getattr(rule, "__name__", "")


@pytest.fixture(scope="module")
def package() -> list[Module]:
    root = Path(__file__).resolve().parents[1]
    return parse({p.relative_to(root).as_posix(): p.read_text("utf-8") for p in (root / PACKAGE).rglob("*.py")})


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
    assert misdrawn(text.replace("outward", "marbles"), package) == ["outward", "marbles"]
    assert "out of order" in misdrawn(text.replace("outward", "errors", 1), package)


BAD: list[tuple[Rule, str, str, str]] = [
    (import_arrows, "lemmas/tail.py", "from ..theorems import gate", "lemmas imports theorems, upwards"),
    (import_arrows, "lemmas/tail.py", "def f():\n    import_module('attnforge.compiler')", "upwards"),
    (import_arrows, "lemmas/tail.py", "if TYPE_CHECKING:\n    import attnforge", "lemmas imports compiler, upwards"),
    (import_arrows, "theorems/gate.py", "from attnforge.runtime import dense", "across a bar"),
    (import_arrows, "elsewhere/thing.py", "", "not a folder of the design"),
    (prover_and_checker_are_apart, "certification/rules.py", f"from {CHECKER}.search import answer", "the prover"),
    (prover_and_checker_are_apart, "certification/checker/check.py", f"import {PROVER}.tokens", "the checker"),
    (literal_imports, "cli/main.py", "importlib.import_module(name)", "computed"),
    (no_import_cycles, "lemmas/tail.py", "def f():\n    from . import tail", "cycle"),
    (torch_where_allowed, "targets/function.py", "class A:\n    import torch.nn as nn", "at module level"),
    (torch_where_allowed, "theorems/gate.py", "def f():\n    import torch", "at function level"),
    *((nothing_evaluates_or_unpickles, "cli/main.py", source, "") for source in (
        "run = exec", "builtins.eval(text)", "sympy.sympify(text)", "from sympy import lambdify as f", "import pickle",
        "from pickle import loads", "np.load(p, allow_pickle=flag)", "torch.load(p)")),
    (runs_on_every_system, "parallel.py", "def f():\n    from resource import x", "resource is not on every system"),
    (runs_on_every_system, "parallel.py", "n = len(os.sched_getaffinity(0))", "os.sched_getaffinity"),
    (names_say_what_is_inside, "lemmas/_utils.py", "", "_utils names no idea"),
    (every_module_has_a_docstring, "lemmas/tail.py", "x = 1", "no docstring"),
    (every_folder_is_a_package, "lemmas/tail.py", "", "no __init__.py"),
]  # fmt: skip
GOOD = {
    "attnforge/__init__.py": "from attnforge import plot\nif TYPE_CHECKING:\n    import attnforge.zoo",
    "attnforge/compiler/__init__.py": "from attnforge.runtime.dense import run\nimport attnforge.errors",
    "attnforge/plot/__init__.py": "from attnforge.network import Network",
    "attnforge/runtime/__init__.py": "import torch\nmodule.eval()\ntorch.load(p, weights_only=True)",
    "attnforge/parallel.py": "with suppress(ImportError):\n    import fcntl",
    "attnforge/theorems/__init__.py": "if TYPE_CHECKING:\n    import torch\n    from . import gate",
    "attnforge/theorems/gate.py": "from ..lemmas import tail\nfrom . import x\nnp.load(p, allow_pickle=False)",
}


@pytest.mark.parametrize(("rule", "path", "source", "complaint"), BAD, ids=by_name)
def test_a_rule_can_fail(rule: Rule, path: str, source: str, complaint: str) -> None:
    (found,) = rule(parse({f"{PACKAGE}/{path}": source}))
    assert complaint in found


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_good_package_passes(rule: Rule) -> None:
    assert rule(parse({path: f'"""What it is."""\n{text}' for path, text in GOOD.items()})) == []


# What tests import: most of them public names only, so that the inside can be built anew


PUBLIC = (
    "attnforge", "attnforge.anchors", "attnforge.cli", "attnforge.constructions", "attnforge.effort",
    "attnforge.errors", "attnforge.export", "attnforge.in_context", "attnforge.network", "attnforge.plot",
    "attnforge.programs", "attnforge.sklearn", "attnforge.zoo",
)  # fmt: skip
EFFORT = ("attnforge.effort.Effort", "attnforge.effort.UNHURRIED")  # of this one no other names
LEAST_SHARE = 0.6


def internals(text: str) -> set[str]:
    """What a test imports of the package that is not public; a folder taken from its parent is one, too."""
    (module,) = parse({"tests/test_it.py": text})
    found = set()
    for node, _ in walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name not in PUBLIC}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{each.name}" for each in node.names}
            found |= {name for name in names if node.module not in PUBLIC or is_internal(name)}
    return {name for name in found if inside(name, PACKAGE)}


def is_internal(name: str) -> bool:
    """Whether a name of a public module is not."""
    if inside(name, "attnforge.effort"):
        return name not in (*PUBLIC, *EFFORT)
    return folder_of(name) in HEIGHT and name.count(".") == 1 and name not in PUBLIC


def public_share(texts: Iterable[str]) -> float:
    """The share of files that import nothing internal."""
    found = [not internals(text) for text in texts]
    return sum(found) / len(found)


def test_most_tests_import_public_names_only() -> None:
    tests = Path(__file__).parent
    assert public_share(path.read_text("utf-8") for path in tests.rglob("*.py")) >= LEAST_SHARE


TAKEN = {
    "import attnforge as af\nfrom attnforge.network import Head\nfrom tests.catalogue import network": False,
    "from attnforge import in_context\nfrom attnforge.effort import UNHURRIED\nfrom attnforge.cli import app": False,
    "from attnforge import outward": True,
    "def f():\n    import attnforge.targets.formula": True,
    "from attnforge.network.apply import CHUNK": True,
    "from attnforge.effort import until": True,
    "if TYPE_CHECKING:\n    from attnforge.outward import Balls": True,
}


def test_what_is_internal_is_seen() -> None:
    assert {text: bool(internals(text)) for text in TAKEN} == TAKEN
    assert public_share(TAKEN) == 2 / 7
