"""The explorer as an application, with processes of its own, and clients that read its answers."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from attnforge.web.app import make_app
from attnforge.web.workers import Workers

PORT = 8642
ADDRESS = f"http://127.0.0.1:{PORT}"

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    with TestClient(make_app(PORT, Workers(2)), base_url=ADDRESS) as found:
        yield found


@pytest.fixture(scope="session")
def ask(client: TestClient) -> Ask:
    """``ask("line", function=..)``: the last message of the answer, a result or an error."""

    def asked(job: str, **request: Any) -> dict[str, Any]:
        answer = client.post(f"/api/{job}", json=request)
        return json.loads(answer.text.splitlines()[-1])

    return asked


@pytest.fixture(scope="session")
def result(ask: Ask) -> Ask:
    """``result("line", function=..)``: what was computed."""
    return lambda job, **request: ask(job, **request)["result"]


def unpacked(data: dict[str, Any]) -> np.ndarray:
    """The array in an answer: numbers in float32, weights between 0 and 1 in two bytes."""
    kind = {"f32": "<f4", "u16": "<u2"}[data["kind"]]
    array = np.frombuffer(base64.b64decode(data["data"]), dtype=kind).reshape(data["shape"])
    return array.astype(np.float64) / (65535 if kind == "<u2" else 1)
