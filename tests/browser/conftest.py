"""A running explorer, and pages of a real Chromium that note what goes wrong in them; for ``./test --browser``."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("ATTNFORGE_CHROMIUM")
collect_ignore_glob = [] if CHROMIUM else ["test_*.py"]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 60_000  # milliseconds: other work may share the machine


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_type_launch_args, "executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where an explorer answers, in a process of its own that ends without a word."""
    command = [sys.executable, "-m", "attnforge", "explore", "--port", "0", "--no-browser", "--json"]
    surroundings = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": CHECKOUT, "env": surroundings}
    with subprocess.Popen(command, **pipes) as server:
        told = ""
        while not told.endswith("}\n"):
            told += server.stdout.readline()
        yield json.loads(told)["address"]
        server.send_signal(signal.SIGINT)
        errors = server.communicate(timeout=60)[1]
    assert "Traceback" not in errors


@dataclass
class Trouble:
    """What a page must not do: errors in its console, exceptions, requests to others."""

    own: str
    found: list[str] = field(default_factory=list)

    def watch(self, page: Any) -> None:
        page.on("console", lambda message: self.note(message.type in ("error", "warning"), f"console: {message.text}"))
        page.on("pageerror", lambda error: self.note(True, f"exception: {error}"))
        page.on("response", lambda each: self.note(each.status >= 400, f"{each.status}: {each.request.post_data}"))
        page.on("request", lambda request: self.note(self.is_outside(request.url), f"outside: {request.url}"))

    def note(self, is_wrong: bool, text: str) -> None:
        self.found += [text] if is_wrong else []

    def is_outside(self, url: str) -> bool:
        return not url.startswith((self.own, "data:", "blob:"))


class Explorer:
    """A page of the explorer, and what one does with it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        page.set_default_timeout(PATIENCE)

    def open(self, query: str = "") -> None:
        self.page.goto(self.address + query)
        self.drawn()

    def drawn(self) -> None:
        """Wait until the picture is there."""
        self.page.wait_for_selector("#figure[data-milliseconds]")

    def proved(self, text: str) -> None:
        """Wait until the certificate states this."""
        self.page.wait_for_function(
            "text => document.querySelector('#certificate-body').innerText.includes(text)", arg=text
        )

    def fact(self, name: str, value: object) -> None:
        """Wait until the network has this number."""
        code = """([name, value]) => [...document.querySelectorAll('#facts dt')].some(
            (dt) => dt.innerText === name && dt.nextElementSibling.innerText === value)"""
        self.page.wait_for_function(code, arg=[name, str(value)])

    def holds(self, selector: str, value: str) -> None:
        """Wait until a control has this value."""
        code = "([selector, value]) => document.querySelector(selector).value === value"
        self.page.wait_for_function(code, arg=[selector, value])

    def downloaded(self, kind: str, ending: str, folder: Path) -> Path:
        """The file of this ending that a button saves; figures have several."""
        with self.page.expect_event("download", lambda each: each.suggested_filename.endswith(ending)) as found:
            self.page.click(f"[data-download={kind}]")
        place = folder / found.value.suggested_filename
        found.value.save_as(place)
        return place

    def slide(self, name: str, value: float) -> None:
        """Move a slider, and let it go."""
        self.page.fill(f"#{name}", str(value))
        self.page.dispatch_event(f"#{name}", "change")


@pytest.fixture
def explorer(page: Any, address: str) -> Iterator[Explorer]:
    trouble = Trouble(address)
    trouble.watch(page)
    yield Explorer(page, address)
    assert trouble.found == []
