"""The checker shares nothing with what builds and proves: by its imports as written, and by those that happen."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import attnforge as af
from tests.catalogue import network

FOLDER = Path(af.__file__).parent / "certification"
FILES = sorted((FOLDER / "checker").glob("*.py"))
MOST_LINES = 5100
OWN = tuple(f"attnforge.certification.{name}" for name in ("certificate", "dialect", "checker"))
ALLOWED = (
    *OWN,
    *(f"attnforge.{name}" for name in ("outward", "kernel.softmax", "expression", "network", "targets")),
    *(f"attnforge.{name}" for name in ("display", "effort", "errors")),
    "flint",
    "numpy",
)
NEVER = ("attnforge.theorems", "attnforge.anchors", "attnforge.compiler", "attnforge.lemmas", "torch", "sympy")


def inside(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def imported(source: str) -> set[str]:
    """The modules that a file imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {"." * node.level + (node.module or "")}
            if node.module in ("attnforge", "attnforge.certification"):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_imports_only_what_it_may(path):
    source = path.read_text()
    for module in imported(source):
        assert inside(module, ALLOWED) or module.split(".")[0] in sys.stdlib_module_names, module
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert not names & {"__import__", "importlib", "exec", "eval"}


def test_no_proof_shares_code_with_what_places_anchors():
    for path in FOLDER.rglob("*.py"):
        assert not any(inside(module, ("attnforge.anchors",)) for module in imported(path.read_text())), path


def test_the_rule_can_fail_and_the_checker_is_short_enough_to_be_read():
    assert imported("from attnforge.certification import certify") >= {"attnforge.certification.certify"}
    assert not any(inside(f"attnforge.{name}", ALLOWED) for name in ("certification.certify", "theorems", "networks"))
    assert sum(len(path.read_text().splitlines()) for path in FILES) < MOST_LINES


def test_checking_a_file_loads_nothing_that_builds_or_proves(tmp_path):
    network("gate").save(tmp_path / "net")
    program = (
        "import json, sys\n"
        "import attnforge as af\n"
        f"found = af.check({str(tmp_path / 'net')!r})\n"
        "print(json.dumps([found.verdict, sorted(sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    verdict, modules = json.loads(done.stdout)
    assert verdict == "confirmed"
    assert [module for module in modules if inside(module, NEVER)] == []
    loaded = [module for module in modules if module.startswith("attnforge.certification.")]
    assert "attnforge.certification.checker.search" in loaded
    of_programs = "attnforge.certification.program_certificate"  # whose proof is a rule of the kernel
    assert [module for module in loaded if not inside(module, (*OWN, of_programs))] == []
