"""Instances with known answers: read independently, tried at their witnesses, and searched for counterexamples."""

import csv
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
import torch
from flint import ctx

import attnforge as af
from attnforge.certification import known_answers
from attnforge.export.instances import KINDS
from attnforge.network import digest, head_places, with_head
from tests.export.vnnlib_reader import exact, read

SAMPLES = 5_000


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    mlp = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)).double()
    square = {"x": (-1, 1), "y": (0.1, 1)}
    return {
        "parabola": af.compile("x^2", {"x": (-1, 1)}, 1e-2),
        "kink": af.compile("sin(3*x) + abs(x)", {"x": (-1, 1)}, 1e-3),
        "single": af.compile("x*y", square, 1e-3, dtype="float32"),
        "several": af.compile("[x*y, x - y^2]", square, 1e-2),
        "mlp": af.constructions.relu_network(mlp, af.Box(-1, 1, shape=(2,))),
    }


class Written:
    """A folder, as someone sees it who has only the files."""

    def __init__(self, path):
        self.path, self.answers = path, json.loads((path / "answers.json").read_text())
        with (path / "instances.csv").open() as file:
            self.rows = list(csv.reader(file))
        self.session = onnxruntime.InferenceSession(path / "network.onnx", providers=["CPUExecutionProvider"])
        self.instances = [(each, read(path / each["vnnlib"])) for each in self.answers["instances"]]

    def run(self, points):
        (found,) = self.session.run(None, {"x": points.astype(self.answers["dtype"])})
        return found.astype(np.float64).reshape(len(points), -1)

    def points(self, asked, count=SAMPLES):
        """Random points of the dtype, those of its files among them: corners and borders of cells."""
        box = asked.box()
        found = np.random.default_rng(0).uniform(*box.T, (count, len(box)))
        found[: 2 * len(box)] = np.where(np.arange(len(box)) % 2, box[:, 1], box[:, 0])
        return np.clip(found.astype(self.answers["dtype"]).astype(np.float64), *box.T)

    def counterexamples(self, asked):
        points = self.points(asked)
        return points[asked.satisfied(points, self.run(points))]


@pytest.fixture(scope="module")
def folders(nets, tmp_path_factory):
    place = tmp_path_factory.mktemp("vnnlib")
    for name, net in nets.items():
        af.export.vnnlib(net, place / name, cells=6)
    return {name: Written(place / name) for name in nets}


NAMES = ("parabola", "kink", "single", "several", "mlp")


@pytest.mark.parametrize("name", NAMES)
def test_instances_are_those_of_the_table(name, folders):
    folder = folders[name]
    assert folder.rows == [[each["onnx"], each["vnnlib"], "300"] for each, _ in folder.instances]
    assert {path.name for path in folder.path.iterdir()} == {"network.onnx", "vnnlib", "instances.csv", "answers.json"}
    assert {f"vnnlib/{path.name}" for path in folder.path.glob("vnnlib/*")} == {row[1] for row in folder.rows}
    kinds = {(each["kind"], each["answer"]) for each, _ in folder.instances}
    assert {(kind, "unsat") for kind in KINDS} <= kinds
    assert {("range", "sat"), ("steps", "sat")} <= kinds
    assert (folder.answers["left_out"] == []) == (len(kinds) == 2 * len(KINDS))


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_numbers_of_the_dtype_in_boxes_of_the_domain(name, folders, nets):
    folder = folders[name]
    for each, asked in folder.instances:
        np.testing.assert_array_equal(asked.box(), each["box"])
        text = "".join(line for line in (folder.path / each["vnnlib"]).open() if not line.startswith(";"))
        words = [word.strip("()") for word in text.split()]
        numbers = [Fraction(word) for word in words if word.strip("-")[:1].isdigit()]
        assert numbers
        assert all(Fraction(float(np.dtype(folder.answers["dtype"]).type(float(one)))) == one for one in numbers)
        domain = nets[name].domain
        assert np.all(asked.box()[:, 0] >= domain.lower)
        assert np.all(asked.box()[:, 1] <= domain.upper)
        assert asked.mixed() <= KINDS[each["kind"]].affine


@pytest.mark.parametrize("name", NAMES)
def test_witnesses_satisfy_the_files_exactly_and_as_they_run(name, folders):
    """The enclosure holds what the file computes in arithmetic of 200 bits, and what ONNX Runtime computes."""
    folder, tried = folders[name], 0
    for each, asked in folder.instances:
        if each["answer"] == "unsat":
            assert each["witness"] is None
            continue
        point, output, between = (each["witness"][key] for key in ("x", "output", "between"))
        before, ctx.prec = ctx.prec, 200
        try:
            true = exact(folder.path / "network.onnx", point)
        finally:
            ctx.prec = before
        x = np.array([Fraction(number) for number in point])
        low, high = map(Fraction, between)
        y = np.array([Fraction(float(number)) for number in true])
        assert low <= y[output] <= high
        for end in (low, high):
            y[output] = end
            assert asked.satisfied(x, y)
        if each["arithmetic"] != "exact":
            ran = folder.run(np.array([point]))
            assert asked.satisfied(np.array([point]), ran).all()
            assert low <= Fraction(ran[0, output]) <= high
        tried += 1
    assert tried >= 6


@pytest.mark.parametrize("name", NAMES)
def test_sampling_finds_counterexamples_of_the_satisfiable_and_none_of_the_others(name, folders):
    folder = folders[name]
    for each, asked in folder.instances:
        found = folder.counterexamples(asked)
        assert each["answer"] == "sat" or len(found) == 0
        if each["answer"] == "sat" and each["margin"] == 1.0 and each["arithmetic"] != "exact":
            assert len(found) > 0


def test_a_sampler_notices_another_network(folders, tmp_path, nets):
    """With one value changed, properties that held are violated: the search that finds nothing could have."""
    other = replace(nets["parabola"], network=changed(nets["parabola"], 1.1))
    af.export.onnx(other, tmp_path / "other.onnx")
    folder = Written(folders["parabola"].path)
    folder.session = onnxruntime.InferenceSession(tmp_path / "other.onnx")
    unsat = [(each["kind"], asked) for each, asked in folder.instances if each["answer"] == "unsat"]
    noticed = {kind for kind, asked in unsat if len(folder.counterexamples(asked))}
    assert {"slopes", "close"} <= noticed


def changed(net, factor):
    """The network with other values of one head."""
    place, values = head_places(net.network)[0], net.network.heads[0].memory_values
    return with_head(net.network, *place, memory_values=values * factor)


def test_a_forged_certificate_is_not_believed(nets, tmp_path):
    net = nets["parabola"]
    network = changed(net, 1.01)
    forged = replace(net, network=network, certificate=replace(net.certificate, digest=digest(network)))
    af.export.vnnlib(forged, tmp_path / "forged", kinds=["slopes"], cells=4)
    folder = Written(tmp_path / "forged")
    error = np.abs(folder.run(np.array([[1.0]])) - 1.0).max()
    assert error > net.certificate.bound
    for each, asked in folder.instances:
        assert each["bound"] >= error
        assert each["answer"] == "sat" or len(folder.counterexamples(asked)) == 0


def test_margins_say_how_close_and_how_hard(nets, tmp_path):
    af.export.vnnlib(nets["parabola"], tmp_path / "f", margins=[0, 0.5], timeout=60, box={"x": (0, 1)})
    folder = Written(tmp_path / "f")
    assert {row[2] for row in folder.rows} == {"60"}
    for kind in KINDS:
        asked = [each for each, _ in folder.instances if each["kind"] == kind]
        assert [each["answer"] for each in asked] == ["sat", "sat", "unsat", "unsat"]
        assert [each["margin"] for each in asked] == [0.5, 0, 0, 0.5]
        thresholds = [each["threshold"] for each in asked]
        assert thresholds == sorted(thresholds)
        most = asked[2]["bound"] + asked[2]["radius"]
        assert thresholds[2:] == pytest.approx([most, 1.5 * most], rel=1e-9)
        assert thresholds[0] == pytest.approx(thresholds[1] / 1.5, rel=1e-9)
        assert thresholds[1] > 0.9 * thresholds[2]  # little is left in between
        assert all(low >= 0 and high <= 1 for each in asked for low, high in each["box"])


def test_two_exports_are_the_same_to_the_byte(nets, tmp_path):
    for name in ("one", "two"):
        af.export.vnnlib(nets["single"], tmp_path / name, kinds=["range", "close"], cells=3)
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).rglob("*.*")} for name in ("one", "two"))
    assert first == second


def test_fewer_instances_leave_no_others_behind(nets, tmp_path):
    for kinds in (("range", "steps"), ("range",)):
        af.export.vnnlib(nets["parabola"], tmp_path / "f", kinds=kinds, cells=3)
    assert {path.name[:6] for path in (tmp_path / "f" / "vnnlib").iterdir()} == {"range_"}


def test_models_without_known_answers_are_refused_in_words(nets, tmp_path):
    line = {"x": (-1, 1)}
    p, table = af.programs, (np.linspace(0, 1, 9), np.linspace(0, 1, 9) ** 2)
    models = {
        "nothing is known between points": [
            af.compile(lambda x: np.sin(x), line, 1e-2),
            af.compile(table, tol=1e-6),
        ],
        "several tokens or a prompt": [
            af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=9, domain=af.Box(-1, 1, shape=(3, 1))),
            af.compile("tokens.mean(x)", line, 1e-2),
            af.in_context.LeastSquares(steps=2, learning_rate=0.1).build(features=1, examples=4),
        ],
        "no target": [
            nets["parabola"].network,
            p.compile(p.selector_width(p.select(p.tokens, p.tokens, "==")), ["a", "b"], max_length=3),
        ],
    }
    for words, refused in models.items():
        for model in refused:
            with pytest.raises(af.RefusalError, match=words):
                af.export.vnnlib(model, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_half_types_unproved_bounds_and_wrong_settings_are_refused(nets, tmp_path, monkeypatch):
    net, place = nets["parabola"], tmp_path / "f"
    with pytest.raises(af.RefusalError, match="float64 or float32"):
        af.export.vnnlib(net, place, dtype="float16")
    sampled = replace(net.certificate, status="sampled", bound=None, parts={})
    for found in (sampled, replace(net.certificate, status="conditional")):
        monkeypatch.setattr(known_answers, "certify", lambda *_, found=found, **__: found)
        with pytest.raises(af.CertificateError, match=rf"is proved, without conditions.*{found.status}"):
            af.export.vnnlib(net, place)
    monkeypatch.undo()
    settings = {"kinds": ["ranges"], "margins": [-1], "cells": 0, "timeout": float("inf")}
    for name, wrong in settings.items():
        with pytest.raises(af.RefusalError, match=f"`{name}`"):
            af.export.vnnlib(net, place, **{name: wrong})
    for box in ({"x": (0, 2)}, {"y": (0, 1)}, [(0, 1), (0, 1)]):
        with pytest.raises(af.DomainError):
            af.export.vnnlib(net, place, box=box)
    assert list(tmp_path.iterdir()) == []
