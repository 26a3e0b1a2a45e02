"""The checker shares nothing with what builds and proves: by its imports as written, and by those that happen."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import attnforge
import attnforge.certification.checker as checker
from tests.laws.cases import SMALL

FOLDER = Path(checker.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
MOST_LINES = 5100

ALLOWED = (
    "attnforge.balls",
    "attnforge.certification.certificate",
    "attnforge.certification.checker",
    "attnforge.display",
    "attnforge.effort",
    "attnforge.errors",
    "attnforge.network",
    "attnforge.targets",
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
    for module in imported(path.read_text()):
        assert inside(module, ALLOWED) or module.split(".")[0] in sys.stdlib_module_names, module


def test_nothing_is_imported_by_name_at_run_time():
    for path in FILES:
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"__import__", "importlib", "exec", "eval"}, path.name


def test_the_rule_can_fail():
    assert imported("from attnforge.certification import certify") >= {"attnforge.certification.certify"}
    assert not inside("attnforge.certification.certify", ALLOWED)
    assert not inside("attnforge.theorems.gate", ALLOWED)
    assert not inside("attnforge.networks", ALLOWED)


def test_it_is_short_enough_to_be_read():
    lines = sum(len(path.read_text().splitlines()) for path in FILES)
    assert lines < MOST_LINES


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The modules of a process that checked a saved file and did nothing else."""
    path = tmp_path_factory.mktemp("models") / "net"
    SMALL["gate"]().save(path)
    program = (
        "import json, sys\n"
        "from attnforge.model_file import check\n"
        f"found = check({str(path)!r}, workers=1)\n"
        "print(json.dumps([found.verdict, sorted(sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_checking_a_file_loads_nothing_that_builds_or_proves(loaded):
    verdict, modules = loaded
    assert verdict == "confirmed"
    assert [module for module in modules if inside(module, NEVER)] == []


def test_of_certification_only_the_certificate_and_the_checker_are_loaded(loaded):
    certificate = ("attnforge.certification.certificate", "attnforge.certification.dialect")  # and how its text is read
    kept = (*certificate, "attnforge.certification.checker")
    modules = [module for module in loaded[1] if module.startswith("attnforge.certification.")]
    assert modules
    assert [module for module in modules if not inside(module, kept)] == []


def test_the_process_did_check(loaded):
    assert "attnforge.certification.checker.search" in loaded[1]
    assert attnforge.__name__ in loaded[1]
