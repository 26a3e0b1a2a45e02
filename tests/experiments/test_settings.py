from pathlib import Path

import pytest

from attnforge.errors import TargetError
from attnforge.experiments.settings import changed, explained, parsed, quick, read_settings, to_toml
from tests.experiments.toy import ToySettings


def test_quick_settings_take_the_quick_values() -> None:
    assert quick(ToySettings) == ToySettings(counts=(1, 2))


def test_flags_are_read_by_type() -> None:
    kinds = {each.name: kind for each, kind in explained(ToySettings)}
    assert parsed("counts", kinds["counts"], " 3, 4 ") == (3, 4)
    assert parsed("scale", kinds["scale"], "2") == 2.0
    assert parsed("slow", kinds["slow"], "True") is True
    assert parsed("trace", kinds["trace"], "a,b") == "a,b"
    assert list(kinds)[-1] == "seed"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("counts", [], "not empty"),
        ("counts", 3, "a list of whole numbers"),
        ("counts", [1, 2.5], "`counts` must be a whole number"),
        ("counts", [True], "`counts` must be a whole number"),
        ("scale", "much", "`scale` must be a number"),
        ("scale", float("nan"), "`scale` must be a number"),
        ("slow", 1, "`slow` must be true or false"),
        ("size", 1, "The settings are counts, scale"),
        ("counts", [3, 0], "`counts` must be at least 1"),
        ("seed", -1, "`seed` must be at least 0"),
    ],
)
def test_wrong_values_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        changed(ToySettings(), {name: value})


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    settings = ToySettings(counts=(3,), scale=0.1, trace='a "b" \\c\n', slow=True, seed=7)
    (tmp_path / "s.toml").write_text(to_toml("toy", settings))
    assert changed(ToySettings(), read_settings(tmp_path / "s.toml")["toy"]) == settings


def test_a_seed_above_all_sections_is_for_all(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("seed = 3\n[toy]\nscale = 2\n")
    assert read_settings(tmp_path / "s.toml") == {"": {"seed": 3}, "toy": {"scale": 2}}


@pytest.mark.parametrize(("text", "message"), [("a = 1\n", "a outside of one"), ("a = = 1", "readable TOML")])
def test_files_that_are_not_settings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(TargetError, match=message):
        read_settings(tmp_path / "s.toml")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="readable TOML"):
        read_settings(tmp_path / "none.toml")
