"""Who is answered: this machine's browser on this very page, and nobody else."""

import json

import pytest

from attnforge.web.limits import BODY

BODY_OF = {"function": "x", "domain": {"x": [0, 1]}, "p": 3}


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:8642", "LOCALHOST:8642", "[::1]:8642"])
def test_names_of_loopback_are_answered(client, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil:8642", ""]
)
def test_other_names_are_not(client, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421  # DNS rebinding


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8642"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_are_refused(client, headers: dict[str, str]) -> None:
    assert client.post("/api/line", json=BODY_OF, headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 403


def test_the_page_itself_is_answered(client) -> None:
    headers = {"origin": "http://127.0.0.1:8642", "sec-fetch-site": "same-origin"}
    assert client.post("/api/line", json=BODY_OF, headers=headers).status_code == 200


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
