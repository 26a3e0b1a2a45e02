"""The release: build sdist and wheel, install the wheel in a clean environment, and try it there.

Run ``.venv/bin/python scripts/package.py`` (stage ``package`` of ``.ci/run``); both files are left in ``dist/``.

The wheel is built from the sdist, not from the checkout. The environment it is installed in holds nothing else but what
the wheel declares to need, without any extra: the distributions of that closure are linked to from the environment that
runs this, file by file of their records, instead of being downloaded again (torch alone has 868 MB). So a file that is
missing in the wheel, and a dependency that is not declared, are missing here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAME, VERSION = PROJECT["project"]["name"], PROJECT["project"]["version"]
SCRIPT = ROOT / "examples" / "first_network.py"

MISTAKES = {
    "af.compil('x', {'x': (0, 1)})": 'has no attribute "compil"',
    "af.compile('x', {'x': (0, 1)}, tol='small')": 'Argument "tol"',
    "af.constructions.gate([1.0], 0.0, -1, 1).certificate.bounds": 'has no attribute "bounds"',
    "af.constructions.tensor_grid('x', {'x': (0, 1)}, anchors={'x': 3})": 'Argument "anchors"',
}
"""Lines of a user that mypy must not let pass, and what it says."""

NET = "import attnforge as af; net = af.compile('x^2', {'x': (0, 1)}, 1e-3); "
MISSING = {
    "onnx": NET + "af.export.onnx(net, 'f.onnx')",
    "lens": NET + "af.export.transformer_lens(net)",
    "sklearn": "import attnforge.sklearn",
    "cluster": NET + "af.certify(net, cluster='tcp://127.0.0.1:1')",
    "parquet": "from attnforge.cli import app; app(['compile', '--table', 'f.parquet'])",
    "web": "from attnforge.cli import app; app(['explore'])",
}
"""What needs an extra; without it, each says how to install it."""
WITHOUT_A_DOOR = {
    "jax": "what is written for JAX is written without it",
    "sympy": "torch brings it",
    "bench": "lines of a peer that is missing are left out",
    "docs": "of a checkout",
    "test": "of a checkout",
    "dev": "of a checkout",
    "browser": "of a checkout",
}


@dataclass(frozen=True)
class Environment:
    """A virtual environment and an empty folder to work in."""

    home: Path
    folder: Path

    @classmethod
    def made(cls, home: Path, pip: bool) -> Environment:
        """A fresh one."""
        venv.create(home, with_pip=pip)
        folder = home / "work"
        folder.mkdir()
        return cls(home, folder)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where distributions are."""
        return next(self.home.glob("lib/python*/site-packages"))

    def run(self, *command: str | Path, fails: bool = False) -> str:
        """What a command prints, run in the empty folder; whether it fails is checked."""
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=self.folder, env=_surroundings(), capture_output=True, text=True, check=False)
        if (done.returncode != 0) != fails:
            sys.exit(f"{' '.join(words)} {'succeeded' if fails else 'failed'}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def _surroundings() -> dict[str, str]:
    """Nothing that would let other packages in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "MYPY"))}
    return kept | {"OMP_NUM_THREADS": "1"}


def build(out: Path, scratch: Path) -> tuple[Path, Path]:
    """The sdist of the checkout, and the wheel of that sdist."""
    builder = Environment.made(scratch / "builder", pip=True)
    pip = (builder.python, "-m", "pip", "--disable-pip-version-check")
    builder.run(*pip, "install", "--quiet", *PROJECT["build-system"]["requires"])
    shutil.rmtree(out, ignore_errors=True)
    script = f"import os; os.chdir({str(ROOT)!r}); from hatchling.build import build_sdist; build_sdist({str(out)!r})"
    out.mkdir()
    builder.run(builder.python, "-c", script)
    sdist = next(out.glob("*.tar.gz"))
    builder.run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out, sdist)
    return sdist, next(out.glob("*.whl"))


def check_contents(sdist: Path, wheel: Path) -> None:
    """The package in both is the package of the checkout, file by file: no cache, nothing missing."""
    git = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", NAME]
    listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
    wanted = {path for path in listed if (ROOT / path).is_file()}
    with zipfile.ZipFile(wheel) as file:
        in_wheel = {path for path in file.namelist() if path.startswith(f"{NAME}/")}
    with tarfile.open(sdist) as file:
        inside = {path.partition("/")[2] for path in file.getnames()}
    in_sdist = {path for path in inside if path in wanted or (path.startswith(f"{NAME}/") and Path(path).suffix)}
    for kind, held in (("wheel", in_wheel), ("sdist", in_sdist)):
        if held != wanted:
            sys.exit(f"the {kind} lacks {sorted(wanted - held)} and has too much: {sorted(held - wanted)}")
    if f"{NAME}/py.typed" not in in_wheel:
        sys.exit("the wheel lacks py.typed")


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that requirements name, and those that these need, on this system; by name."""
    waiting = [Requirement(text) for text in requirements]
    closure: dict[tuple[str, str], Distribution] = {}
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *sorted(wanted.extras)):
            key = (canonicalize_name(wanted.name), extra)
            if key in closure or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
                continue
            closure[key] = distribution(wanted.name)
            inner = [Requirement(text) for text in closure[key].requires or ()]
            waiting += [each for each in inner if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name: found for (name, _), found in closure.items()}


def link(found: Iterable[Distribution], into: Path) -> None:
    """Links to the top-level files and folders of distributions."""
    for each in found:
        for path in {Path(str(file)).parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            place = into / path
            if not place.exists():
                place.symlink_to(Path(str(each.locate_file(path))))


def install(wheel: Path, scratch: Path) -> Environment:
    """A clean environment with the wheel and what it declares to need."""
    user = Environment.made(scratch / "user", pip=True)
    pip = (user.python, "-m", "pip", "--disable-pip-version-check")
    user.run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    installed = next(user.packages.glob(f"{NAME}-*.dist-info"))
    metadata = (installed / "METADATA").read_text(encoding="utf-8")
    declared = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    link(needed(text for text in declared if "extra ==" not in text).values(), user.packages)
    user.run(*pip, "check")
    return user


def try_command(user: Environment) -> None:
    """The version, the demonstration, and the checker's word on what it wrote."""
    command = user.home / "bin" / NAME
    for words in ((command,), (user.python, "-m", NAME)):
        if (said := user.run(*words, "--version").strip()) != f"{NAME} {VERSION}":
            sys.exit(f"--version says {said}, not {NAME} {VERSION}")
    user.run(command)
    user.run(command, "certify", "attnforge-demo.safetensors", "--check")
    if not (user.folder / "attnforge-demo.png").is_file():
        sys.exit("the demonstration drew no figure")


def try_script(user: Environment) -> None:
    """A user's script runs, and mypy reads the types of the installed package: it lets that pass, and mistakes not."""
    shutil.copy(SCRIPT, user.folder)
    user.run(user.python, SCRIPT.name)
    where = user.run(user.python, "-c", f"import {NAME}; print({NAME}.__file__)").strip()
    if not Path(where).is_relative_to(user.packages):
        sys.exit(f"{NAME} was imported from {where}")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", user.python, "--cache-dir", "types")
    user.run(*mypy, SCRIPT.name)
    (user.folder / "mistakes.py").write_text(
        "import attnforge as af\n\n" + "\n".join(MISTAKES) + "\n", encoding="utf-8"
    )
    said = user.run(*mypy, "mistakes.py", fails=True)
    if overlooked := [text for text in MISTAKES.values() if text not in said]:
        sys.exit(f"mypy does not see {overlooked}:\n{said}")


def try_extras(user: Environment) -> None:
    """Without an extra, whatever needs it names the line that installs it."""
    extras = set(PROJECT["project"]["optional-dependencies"])
    if extras != set(MISSING) | set(WITHOUT_A_DOOR):
        sys.exit(f"scripts/package.py must say how {sorted(extras ^ (set(MISSING) | set(WITHOUT_A_DOOR)))} is missed")
    (user.folder / "f.parquet").write_bytes(b"PAR1")
    for extra, code in MISSING.items():
        said = " ".join(user.run(user.python, "-c", code, fails=True).split())
        if f"attnforge[{extra}]" not in said:
            sys.exit(f"without the extra {extra} nobody says how to install it:\n{said}")


def main() -> None:
    """Build, install, try."""
    with tempfile.TemporaryDirectory() as scratch:
        sdist, wheel = build(ROOT / "dist", Path(scratch))
        check_contents(sdist, wheel)
        user = install(wheel, Path(scratch))
        try_command(user)
        try_script(user)
        try_extras(user)
    for path in (sdist, wheel):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
