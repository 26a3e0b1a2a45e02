"""Answers of the server: the page, results as the Python interface has them, refusals in words, nothing of a defect."""

import base64
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnforge as af
from attnforge.web.index import INDEX, Entry
from attnforge.web.jobs import ANSWERS
from attnforge.web.packing import unpacked

WAVE = {"function": "sin(8*x)", "domain": {"x": [-1, 1]}}


def test_every_job_has_an_answer() -> None:
    assert set(INDEX) == set(ANSWERS)


def test_the_server_itself_does_not_load_torch() -> None:
    code = "import sys, attnforge.web.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_page_and_its_files_are_served(client) -> None:
    page = client.get("/?view=line&p=20")
    assert page.headers["content-type"].startswith("text/html")
    assert client.get("/favicon.ico").status_code == 200
    script = client.get("/static/vendor/plotly-cartesian.min.js")
    assert script.headers["content-encoding"] == "gzip"
    assert "javascript" in script.headers["content-type"]


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/etc/passwd", "/api/", "/docs"])
def test_no_other_file_is_served(client, path: str) -> None:
    assert client.get(path).status_code in (404, 405)


def test_the_picture_is_what_the_library_computes(ask) -> None:
    result = ask("line", **WAVE, construction="tensor_grid", p=17, sharpness=0.5)["result"]
    net = af.constructions.tensor_grid("sin(8*x)", {"x": (-1, 1)}, anchors=17, sharpness=0.5 * 8**2)
    x = unpacked(result["x"])
    assert np.abs(unpacked(result["output"]) - net(x)).max() < 1e-6  # of float32
    assert result["worst"]["error"] == pytest.approx(net.certificate.estimate.error, rel=0.05)
    assert result["facts"]["keys"] == net.anchors
    weights = unpacked(result["map"]["weights"])
    assert weights.shape == (161, net.anchors)
    assert np.abs(weights - net.attention(np.linspace(-1, 1, 161))[0][0][:, 0]).max() < 2e-5


def test_the_python_lines_make_the_network_of_the_view(ask, capsys) -> None:
    result = ask("line", function="clamp(2*x, -1, 1)", domain={"x": [-1, 1]}, construction="truncated_linear", p=9)
    lines = result["result"]["python"]
    assert lines.startswith("import attnforge as af\n\nnet = af.constructions.truncated_linear([2.0], 0.0, -1.0, 1.0,")
    made: dict[str, Any] = {}
    exec(lines, made)
    assert "proved" in capsys.readouterr().out
    assert made["net"].anchors == 9


def test_a_certificate_is_the_libraries(ask) -> None:
    found = ask("certificate", of={"kind": "line", **WAVE, "p": 21})["result"]
    net = af.constructions.max_affine("sin(8*x)", {"x": (-1, 1)}, cells=21)
    assert found["certificate"]["bound"] == net.certificate.bound
    assert af.Certificate.from_json(found["json"]).digest == net.certificate.digest


def test_weights_can_be_loaded(ask, tmp_path: Path) -> None:
    found = ask("download", of={"kind": "line", **WAVE, "construction": "tensor_grid", "p": 12, "sharpness": 0.5})
    path = tmp_path / found["result"]["name"]
    path.write_bytes(base64.b64decode(found["result"]["data"]))
    net = af.load(path)
    assert net.construction == "tensor_grid"
    assert net.certificate.status == "proved"


def test_the_comparison_spans_orders_of_magnitude(ask) -> None:
    found = ask("comparison", **WAVE, p=33)["result"]
    assert found["hard"] > 3 * found["tuned"] > 1000 * found["fitted"]


def test_temperature_names_regimes_and_sees_the_optimum(ask) -> None:
    found = ask(
        "temperature", function="clamp(x, -1, 1)", domain={"x": [-2, 2]}, construction="truncated_linear", p=129
    )
    result = found["result"]
    errors, h = np.array(result["curves"]["float64"]["error"]), 2 / 128
    best = result["c"][int(errors.argmin())]
    assert 2 < best < 3.5
    assert 0.0625 * h < errors.min() < 0.09 * h  # 0.0629 h at the very best c, between two that are tried
    assert [regime["name"] for regime in result["regimes"]] == ["uniform", "soft", "tuned", "steps", "hard"]
    assert result["curves"]["float16"]["lost"][-1]  # queries 2 c u exceed 65504
    assert not any(result["curves"]["float64"]["lost"])


@pytest.mark.parametrize(
    ("text", "column"), [("sin(8*x", 1), ("foo(x)", 1), ("x+*y", 3), ("9^9^9^9", 5), ("__import__('os')", 12)]
)
def test_errors_point_at_the_column(ask, text: str, column: int) -> None:
    error = ask("line", function=text, domain={"x": [-1, 1]})["error"]
    assert (error["kind"], error["column"]) == ("TargetError", column)


def test_what_is_beyond_the_limits_is_refused_in_words(client) -> None:
    for change, word in (({"p": 10**6}, "512"), ({"function": "x" * 401}, "400"), ({"extra": 1}, "extra")):
        answer = client.post("/api/line", json={**WAVE, **change})
        assert answer.status_code == 422
        assert word in answer.json()["error"]["message"].lower()
    assert client.post("/api/nothing", json={}).status_code == 404


def test_a_request_that_takes_too_long_is_ended_and_others_go_on(client, ask, monkeypatch) -> None:
    slow = Entry(INDEX["temperature"].request, 0.05, is_long=True)
    monkeypatch.setitem(INDEX, "temperature", slow)
    error = ask("temperature", **WAVE)["error"]
    assert "longer than" in error["message"]
    assert "result" in ask("line", **WAVE)


ODD = (None, True, -1, 0, 1e308, 2**70, "", "x", "\x00", "💥" * 50, [], [1], {}, {"x": 1}, "NaN", 0.5, [[1, 2]])
TEXTS = (
    "x",
    "sin(x)",
    "1/x",
    "x^64",
    "log(x)",
    "((((",
    "x;y",
    "abs(x)+y",
    "exp(exp(9*x))",
    "'",
    "tokens.mean(x)",
    "[x,x]",
)


def odd_request(rng: random.Random) -> tuple[str, bytes]:
    """A request of a job with fields that are wrong in kind, size or text, or not JSON at all."""
    job = rng.choice([*INDEX, "nothing"])
    fields = {
        "function": rng.choice([*TEXTS, "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(40)))]),
        "domain": rng.choice([{"x": [-1, 1]}, {"x": [0, 1], "y": [0, 1]}, {"x": [1, 1]}, {"x y": [0, 1]}, ODD[9]]),
        "p": rng.choice([3, 7, 2, 513, -1, 8.5]),
        "sharpness": rng.choice(["hard", "tuned", "tolerance", 0.5, 0, "soft"]),
        "dtype": rng.choice(["float64", "float16", "int8"]),
    }
    for name in rng.sample(list(fields), rng.randrange(3)):
        del fields[name]
    if rng.random() < 0.5:
        fields[rng.choice([*fields, "of", "extra", "tol", "construction", "x"])] = rng.choice(ODD)
    body = json.dumps({"of": {"kind": "line", **fields}} if job in ("certificate", "download") else fields).encode()
    return job, bytes(rng.randrange(256) for _ in range(20)) if rng.random() < 0.1 else body


def test_odd_requests_get_answers_in_words(client) -> None:
    rng = random.Random(0)
    for _ in range(250):
        job, body = odd_request(rng)
        answer = client.post(f"/api/{job}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 404, 413, 422), (job, body)
        last = json.loads(answer.text.splitlines()[-1])
        assert last.get("error", {}).get("kind") != "unexpected", (job, body, last)
