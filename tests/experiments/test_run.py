from pathlib import Path

import pytest

from attnforge.errors import TargetError
from attnforge.experiments import run
from attnforge.experiments.run import FailedCasesError
from tests.experiments.toy import Toy, ToySettings
from tests.meeting import meeting

FILES = ["cases.jsonl", "results.csv", "settings.toml", "toy.png", "verdict.md"]
KINDS = ("png", "svg", "pdf")


def test_a_run_writes_its_folder(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    result = run(Toy(), out=tmp_path, workers=1, command="attnforge x", progress=lambda *done: told.append(done))
    assert sorted(path.name for path in result.folder.iterdir()) == FILES
    assert (result.folder / "results.csv").read_text().splitlines()[0].startswith("p,scale,")
    assert result.table.numbers("error").tolist() == [1.0, 0.5, 0.25]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    text = (result.folder / "verdict.md").read_text()
    for part in ("| rows | **measured** | 3 |", "![toy](toy.png)", "Made by `attnforge x`.", "3 rows in"):
        assert part in text


def test_the_same_results_are_the_same_files(tmp_path: Path) -> None:
    for place in ("a", "b"):
        run(Toy(), out=tmp_path / place, workers=1, formats=KINDS)
    for name in ("results.csv", "settings.toml", "toy.pdf", "toy.png", "toy.svg"):
        assert (tmp_path / "a/toy" / name).read_bytes() == (tmp_path / "b/toy" / name).read_bytes(), name


def test_formats_are_known_ones(tmp_path: Path) -> None:
    for wrong in (("gif",), ()):
        with pytest.raises(TargetError, match="some of svg, pdf, png"):
            run(Toy(), out=tmp_path, workers=1, formats=wrong)


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    trace = str(tmp_path / "trace")
    broken = ToySettings(counts=(1, 2, 4), trace=trace)
    run(Toy(), ToySettings(counts=(1, 4), trace=trace), out=tmp_path, workers=1)
    result = run(Toy(), broken, out=tmp_path, workers=1)
    assert result.measured == 1
    assert [line.split()[0] for line in Path(trace).read_text().splitlines()] == ["1", "4", "2"]
    assert result.table.numbers("p").tolist() == [1, 2, 4]  # in the order of the cases, not of measuring
    assert run(Toy(), broken, out=tmp_path, workers=1, again=True).measured == 3
    assert len((tmp_path / "toy/cases.jsonl").read_text().splitlines()) == 6  # nothing is taken away


def test_a_case_that_fails_stops_no_other_and_is_told(tmp_path: Path) -> None:
    settings = ToySettings(counts=(1, 2, 4), broken=1)
    with pytest.raises(FailedCasesError, match=r"1 of 3 cases of toy failed(.|\n)*this one is broken"):
        run(Toy(), settings, out=tmp_path, workers=1)
    assert len((tmp_path / "toy/cases.jsonl").read_text().splitlines()) == 2
    assert not (tmp_path / "toy/verdict.md").exists()


def test_cases_run_in_several_processes(tmp_path: Path) -> None:
    with meeting(lambda _, arrivals: len(arrivals) == 2) as place:
        settings = ToySettings(counts=tuple(range(1, 9)), meeting=place.port)
        result = run(Toy(), settings, out=tmp_path, workers=2)
    assert place.arrivals.total() == 8
    assert result.table.numbers("p").tolist() == list(range(1, 9))


def test_quick_takes_the_quick_settings(tmp_path: Path) -> None:
    assert len(run(Toy(), out=tmp_path, quick=True, workers=1).table) == 2


def test_wrong_settings_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="whole number"):
        run(Toy(), ToySettings(counts=("a",)), out=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="at least 1"):
        run(Toy(), out=tmp_path, workers=0)
    assert list(tmp_path.iterdir()) == []
