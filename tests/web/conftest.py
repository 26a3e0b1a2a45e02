"""The explorer as an application, with processes of its own, and a client that reads its answers."""

import json
from collections.abc import Callable, Iterator
from typing import Any

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
