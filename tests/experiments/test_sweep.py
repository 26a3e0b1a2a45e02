import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from attnforge.experiments import run
from attnforge.experiments.settings import quick
from attnforge.experiments.sweep import attempt, sweep
from tests.experiments.toy import Toy, ToySettings
from tests.meeting import meeting, stuck


def test_cases_that_need_to_be_alone_run_here_one_at_a_time(tmp_path: Path) -> None:
    settings = ToySettings(counts=(1, 2), trace=str(tmp_path / "trace"), slow=True)
    outcomes = list(sweep(Toy(), Toy().cases(settings), workers=2, cluster=None))
    assert [outcome.case["p"] for outcome in outcomes] == [1, 2]
    assert {line.split()[1] for line in (tmp_path / "trace").read_text().splitlines()} == {str(os.getpid())}


def test_a_case_runs_on_one_thread_and_leaves_torch_as_it_was() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen = attempt(Threads(), Toy().cases(quick(ToySettings))[0])
        assert seen.entry is not None
        assert seen.entry.rows[0]["threads"] == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class Threads(Toy):
    def measure(self, case):
        return [{"threads": torch.get_num_threads()}]


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_sweep_loses_nothing(cluster, tmp_path: Path) -> None:
    address, workers = cluster
    trace = tmp_path / "trace"
    victim = str(workers[0].pid)
    with meeting(stuck(workers[0].pid)) as place:

        def kill() -> None:
            """The first worker, as soon as it has measured something and is at work again."""
            place.wait(lambda arrivals: arrivals[workers[0].pid] == 2)
            workers[0].send_signal(signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        settings = ToySettings(counts=tuple(range(1, 13)), trace=str(trace), meeting=place.port)
        result = run(Toy(), settings, out=tmp_path, cluster=address)
    measured = [line.split() for line in trace.read_text().splitlines()]
    assert result.table.numbers("p").tolist() == list(range(1, 13))
    assert len((tmp_path / "toy/cases.jsonl").read_text().splitlines()) == 12
    assert {pid for _, pid in measured[-3:]} == {str(workers[1].pid)}  # the other one did the rest
    again = {p for p, _ in measured if [q for q, _ in measured].count(p) > 1}
    assert again  # the case that died with its worker, and a result that was still there, were measured again
    assert all((p, victim) in {tuple(line) for line in measured} for p in again)  # and no others
