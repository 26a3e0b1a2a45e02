"""Whatever needs an extra that is not installed names the line that installs it, and leaves nothing behind."""

import importlib.metadata
import re
import sys

import pytest

from scripts.package import MISSING, PROJECT, WITHOUT_A_DOOR

MODULES = {"scikit-learn": "sklearn", "transformer-lens": "transformer_lens"}  # distributions named otherwise


def modules(extra):
    """What its distributions are imported as."""
    names = [re.match(r"[\w-]+", text)[0] for text in PROJECT["project"]["optional-dependencies"][extra]]
    return [MODULES.get(name, name) for name in names]


def missed(extra, monkeypatch):
    """Let everything of an extra be missing, and nothing that imported it be there already."""
    for name in modules(extra):
        for loaded in [each for each in sys.modules if each.split(".")[0] == name]:
            monkeypatch.setitem(sys.modules, loaded, None)
        monkeypatch.setitem(sys.modules, name, None)  # what an import of a package that is not there looks like
    for loaded in [each for each in sys.modules if re.match(rf"attnforge\.({extra}|web)\b", each)]:
        monkeypatch.delitem(sys.modules, loaded)


def test_every_extra_of_the_package_is_tried():
    assert set(PROJECT["project"]["optional-dependencies"]) == set(MISSING) | set(WITHOUT_A_DOOR)
    for extra in MISSING:
        for name in modules(extra):
            assert name in importlib.metadata.packages_distributions(), name


@pytest.mark.parametrize("extra", MISSING)
def test_the_install_line_is_named_and_nothing_is_written(extra, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.parquet").write_bytes(b"PAR1")
    missed(extra, monkeypatch)
    with pytest.raises((Exception, SystemExit)) as raised:
        exec(compile(MISSING[extra], extra, "exec"), {})
    said = " ".join((str(raised.value) + capsys.readouterr().err).split())
    assert f"attnforge[{extra}]" in said
    assert not said.startswith("No module named")
    assert [path.name for path in tmp_path.iterdir()] == ["f.parquet"]
