"""Answers of the server: the page, also as one file, certificates, refusals in words, nothing of a defect."""

import base64
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnforge as af
from attnforge.web.export import STATIC, bundled, page, positions
from attnforge.web.index import INDEX, Entry

WAVE = {"function": "sin(8*x)", "domain": {"x": [-1, 1]}}


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
    "x", "sin(x)", "1/x", "x^64", "log(x)", "((((", "x;y", "abs(x)+y", "exp(exp(9*x))", "'", "tokens.mean(x)", "[x,x]",
)  # fmt: skip


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


def test_the_page_as_one_file_needs_nothing_else_and_holds_no_text_as_markup() -> None:
    text = page([["line", {"function": "</script><b>x"}, {}]])
    assert not re.search(
        r"""(src|href)=["'](?!data:|#|\?)""", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    )
    assert "<b>x" not in text
    assert text.count("</script>") == text.count("<script>") == 3
    assert "default-src 'none'" in text
    asked = list(positions("sin(8*x)", {"x": (-1, 1)}))
    assert {job for job, _ in asked} == set(INDEX) - {"download"}
    for job, request in asked:
        INDEX[job].request.model_validate(request)


def test_scripts_are_bundled_in_the_order_in_which_they_are_needed() -> None:
    text = bundled("main.js")
    names = re.findall(r"^modules\['(.*)'\] = ", text, re.MULTILINE)
    scripts = (path for path in STATIC.rglob("*.js") if "vendor" not in path.parts)
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    assert (names[-1], set(names)) == ("main.js", {path.relative_to(STATIC).as_posix() for path in scripts})
    for i, name in enumerate(names):
        body = text.split(f"modules['{name}'] = ")[1].split("\nmodules['")[0]
        assert set(re.findall(r"= modules\['(.*?)'\];", body)) <= set(names[:i])
