"""Files and folders are there in whole or not at all."""

from pathlib import Path

import pytest

from attnforge.files import write_folder_whole, write_whole

NEW = {"model.py": b"new", "parts/a": b"1", "parts/b": b"2"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def failing_at(monkeypatch, name: str) -> None:
    """Let the move of an entry of this name into its place fail."""
    rename = Path.rename

    def refused(self: Path, goal: Path) -> Path:
        if self.name == name and self.parent.name == "made":
            raise OSError(28, "No space left on device")
        return rename(self, goal)

    monkeypatch.setattr(Path, "rename", refused)


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    for data in (b"one", b"two"):
        write_whole(tmp_path / "f", data)
        assert contents(tmp_path) == {"f": data}


def test_a_new_folder(tmp_path):
    write_folder_whole(tmp_path / "out", NEW)
    assert contents(tmp_path) == {f"out/{name}": data for name, data in NEW.items()}
    assert (tmp_path / "out").stat().st_mode & 0o777 == (tmp_path / "out/parts").stat().st_mode & 0o777


def test_an_existing_folder_keeps_what_else_is_in_it(tmp_path):
    write_folder_whole(tmp_path, {"model.py": b"old", "notes": b"mine", "parts/c": b"stale"})
    write_folder_whole(tmp_path, NEW)
    assert contents(tmp_path) == NEW | {"notes": b"mine"}  # an entry that is a folder is replaced with all in it


@pytest.mark.parametrize("entry", ["model.py", "parts"])
def test_a_folder_that_cannot_be_finished_has_its_old_entries(tmp_path, monkeypatch, entry):
    before = {"model.py": b"old", "notes": b"mine"}
    write_folder_whole(tmp_path, before)
    failing_at(monkeypatch, entry)
    with pytest.raises(OSError, match="No space"):
        write_folder_whole(tmp_path, NEW)
    assert contents(tmp_path) == before


def test_half_a_folder_is_never_there(tmp_path, monkeypatch):
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "b":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        write_folder_whole(tmp_path / "out", NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "out").write_bytes(b"mine")
    with pytest.raises(OSError, match="Not a directory"):
        write_folder_whole(tmp_path / "out", NEW)
    assert contents(tmp_path) == {"out": b"mine"}
