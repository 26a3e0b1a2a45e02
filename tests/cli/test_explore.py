"""``attnforge explore``: started, refused and exported."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx


def test_it_answers_and_ends_with_the_interrupt() -> None:
    command = [sys.executable, "-m", "attnforge", "explore", "--port", "0", "--no-browser", "--json"]
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings
    ) as server:
        told = ""
        while not told.endswith("}\n"):
            told += server.stdout.readline()
        address = json.loads(told)["address"]
        assert address.startswith("http://127.0.0.1:")
        assert "attnforge" in httpx.get(address, timeout=60).text
        server.send_signal(signal.SIGINT)
        errors = server.communicate(timeout=60)[1]
    assert "Traceback" not in errors


def test_a_port_in_use_is_named(run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run("explore", "--port", taken.getsockname()[1], "--no-browser")
    assert result.exit_code == 2
    assert "must be free" in result.stderr


def test_what_is_missing_is_named(run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("explore", "--port", "0", "--no-browser")
    assert result.exit_code == 2
    assert 'pip install "attnforge[web]"' in result.stderr


def test_an_export_is_refused_before_it_is_computed(run, tmp_path: Path) -> None:
    assert run("explore", "--export", tmp_path / "page.png").exit_code == 2
    assert run("explore", "--export", tmp_path / "page.html", "--domain", "x").exit_code == 2
    assert "one input" in run("explore", "--export", tmp_path / "page.html", "--domain", "x=0:1,y=0:1").stderr
    assert not list(tmp_path.iterdir())
