"""True processes: what only shows outside the test runner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "from attnforge.cli import main; main()"


def start(*words: object, code: str = MAIN, **settings: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **settings)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["compile", "x", "--domain", "1"]])
def test_what_needs_no_network_loads_nothing_heavy(words: list[str]) -> None:
    """Beyond what `import attnforge` loads, only typer, rich and what they need."""
    code = f"""
import sys, attnforge
before = set(sys.modules)
try:
    {MAIN}
finally:
    heavy = [n for n in ("torch", "matplotlib", "sympy", "pandas") if n in sys.modules]
    new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
    print("HEAVY", *heavy, *new & {{"numpy", "scipy", "flint", "safetensors"}}, file=sys.stderr)
"""
    assert start(*words, code=code).stderr.splitlines()[-1] == "HEAVY"


@pytest.mark.slow  # two imports of torch
def test_exit_code_and_streams(model: Path, forged: Path) -> None:
    good, bad = start("certify", model, "--json"), start("certify", forged, "--json")
    assert (good.returncode, bad.returncode) == (0, 4)
    assert json.loads(good.stdout)["confirmed"] is True
    assert json.loads(bad.stdout)["confirmed"] is False
    assert good.stderr == bad.stderr == ""


@pytest.mark.parametrize(("as_json", "missing", "code"), [(True, False, 1), (False, False, 1), (True, True, 5)])
def test_a_closed_pipe_is_quiet(model: Path, as_json: bool, missing: bool, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", MAIN, "inspect", f"{model}{'.none' * missing}", *["--json"] * as_json]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(write)
    assert result.stderr.startswith("error: A model file must exist") if missing else result.stderr == ""
    assert not {"Traceback", "BrokenPipeError"} & set(result.stderr.replace(":", " ").split())
    assert result.returncode == code
