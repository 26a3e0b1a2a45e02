import json
from pathlib import Path

import attnforge as af


def test_shows_report_and_layers(run, model: Path, net: af.Compiled) -> None:
    result = run("inspect", model)
    assert f"<= {net.certificate.bound:.4g}" in result.stdout
    assert str(net.network) in result.stdout
    assert "the stored one" in result.stderr


def test_json(run, model: Path, net: af.Compiled) -> None:
    data = json.loads(run("inspect", model, "--json").stdout)
    assert data["certificate"]["bound"] == net.certificate.bound
    assert data["certificate"]["digest"] == net.certificate.digest
    linear, attention = data["network"]
    assert linear == {"kind": "linear"}
    assert attention["heads"][0]["keys"] == {"anchor": net.anchors}


def test_a_model_on_tokens(run, tokens: Path) -> None:
    data = json.loads(run("inspect", tokens, "--json").stdout)
    assert data["domain"]["names"] is None
    assert data["construction"] == "gate"


def test_missing_damaged_and_foreign_files_are_code_5(run, damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "text.safetensors").write_text("not a model, but long enough to have a header length")
    for file, complaint in [
        (tmp_path / "none.safetensors", "must exist"),
        (damaged, "altered or damaged"),
        (tmp_path / "text.safetensors", "not a model of attnforge"),
        (tmp_path, "must exist"),
    ]:
        result = run("inspect", file)
        assert result.exit_code == 5
        assert complaint in result.stderr
        assert result.stdout == ""
