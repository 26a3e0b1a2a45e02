"""Who is answered: this machine's browser on this very page, and nobody else."""

import asyncio
import json
import sys
from typing import Any

import pytest

from attnforge.web.app import make_app
from attnforge.web.limits import BODY
from attnforge.web.workers import Workers

BODY_OF = {"function": "x", "domain": {"x": [0, 1]}, "p": 3}


OURS = ("127.0.0.1:8642", "localhost:8642", "LOCALHOST:8642", "[::1]:8642")
OTHERS = ("evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil:8642", "")  # DNS rebinding
SITES = [
    *({"origin": origin} for origin in ("http://evil.example", "null", "https://127.0.0.1:8642", "http://127.0.0.1:1")),
    *({"sec-fetch-site": site} for site in ("cross-site", "same-site")),
]


@pytest.mark.parametrize("host", [*OURS, *OTHERS])
def test_names_of_loopback_are_answered_and_no_others(client, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == (200 if host in OURS else 421)


@pytest.mark.parametrize("headers", SITES, ids=str)
def test_the_page_itself_is_answered_and_no_other_site(client, headers: dict[str, str]) -> None:
    assert client.post("/api/line", json=BODY_OF, headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 403
    own = {"origin": "http://127.0.0.1:8642", "sec-fetch-site": "same-origin"}
    assert client.post("/api/line", json=BODY_OF, headers=own).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_can_send_is_no_request(client, kind: str) -> None:
    answer = client.post("/api/line", content=json.dumps(BODY_OF), headers={"content-type": kind})
    assert answer.status_code == 415


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE"])
def test_other_methods_are_refused(client, method: str) -> None:
    answer = client.request(method, "/api/line")
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


def test_long_bodies_are_cut_off_with_and_without_a_length(client) -> None:
    kind = {"content-type": "application/json"}
    assert client.post("/api/line", content=b" " * (BODY + 1), headers=kind).status_code == 413
    chunks = (b" " * 1024 for _ in range(BODY // 1024 + 2))
    assert client.post("/api/line", content=chunks, headers=kind).status_code == 413


@pytest.mark.parametrize("path", ["/", "/static/style.css", "/nowhere"])
def test_every_answer_has_the_headers(client, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"


OUTSIDE = [
    "/static/../app.py", "/static/%2e%2e/app.py", "/etc/passwd", "/docs", "/static/%00", "/static/..%2f..%2fapp.py",
    "/static//etc/passwd", "/static/" + "a" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_pages_folder(client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 30_000,
        b'{"of":' * 9_000,
        b"[" * 10_000 + b"]" * 10_000,
        b'{"function":"\\ud800","domain":{"x":[0,1]}}',
        b'{"function":"x","domain":{"x":[0,1]},"p":' + b"9" * 5_000 + b"}",
        b'{"function":"x","domain":{"x":[0,NaN]}}',
    ],
    ids=["deep lists", "deep objects", "closed lists", "half a character", "a long number", "no number"],
)
def test_json_that_blows_up_is_refused(client, body: bytes) -> None:
    for job in ("line", "certificate"):
        answer = client.post(f"/api/{job}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert len(answer.text) < 1000  # nothing of it is sent back


@pytest.mark.parametrize(
    "text",
    ["(" * 190 + "x" + ")" * 190, "exp(" * 60 + "x" + ")" * 60, "9^9^9^9", "-" * 300 + "x", "1e308*1e308*x", "x!"],
)
def test_formulas_that_blow_up_are_answered_in_words(client, text: str) -> None:
    answer = client.post("/api/line", json={"function": text, "domain": {"x": [-1, 1]}, "p": 9})
    last = json.loads(answer.text.splitlines()[-1])
    assert "result" in last or last["error"]["kind"] in ("TargetError", "DomainError", "ToleranceError", "RefusalError")


def test_a_request_that_trickles_in_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[make_app.__module__], "SENDING", 0.05)
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if told:
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()  # for ever
        return {"type": "http.request", "body": b"{", "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    headers = [(b"host", b"127.0.0.1:8642"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/line", "headers": headers, "query_string": b""}
    asyncio.run(make_app(8642, Workers(1))(scope, receive, send))
    assert told[0]["status"] == 408
