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
from attnforge.network import digest, moved
from tests.export.vnnlib_reader import exact, read
from tests.refusals import refused

SAMPLES = 5_000
AFFINE = {"range": False, "steps": False, "slopes": True, "close": True}  # the kinds, and what outputs are held to
LINE = {"x": (-1, 1)}


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
    assert {(kind, "unsat") for kind in AFFINE} <= kinds
    assert {("range", "sat"), ("steps", "sat")} <= kinds
    assert (folder.answers["left_out"] == []) == (len(kinds) == 2 * len(AFFINE))


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
        assert asked.mixed() <= AFFINE[each["kind"]]


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
    return moved(net.network, "layer1.head0.memory_values", lambda values: factor * values)


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
    for kind in AFFINE:
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


def test_two_exports_are_the_same_to_the_byte_and_leave_no_other_instances_behind(nets, tmp_path):
    for name, kinds in (("one", ["range"]), ("two", ["range", "steps"]), ("two", ["range"])):
        af.export.vnnlib(nets["single"], tmp_path / name, kinds=kinds, cells=3)
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).rglob("*.*")} for name in ("one", "two"))
    assert first == second


p = af.programs
WITHOUT_ANSWERS = {
    "a callable": lambda: af.compile(lambda x: np.sin(x), LINE, 1e-2),
    "a table": lambda: af.compile((np.linspace(0, 1, 9), np.linspace(0, 1, 9) ** 2), tol=1e-6),
    "tokens": lambda: af.constructions.truncated_linear(
        [1.0], 0.0, -1, 1, anchors=9, domain=af.Box(-1, 1, shape=(3, 1))
    ),
    "a function of prompts": lambda: af.compile("tokens.mean(x)", LINE, 1e-2),
    "an algorithm": lambda: af.in_context.LeastSquares(steps=2, learning_rate=0.1).build(features=1, examples=4),
    "a network": lambda: af.compile("x^2", LINE, 1e-2).network,
    "a program": lambda: p.compile(p.selector_width(p.select(p.tokens, p.tokens, "==")), ["a", "b"], max_length=3),
}


@pytest.mark.parametrize("what", WITHOUT_ANSWERS)
def test_models_without_known_answers_are_refused(what, tmp_path):
    with refused(af.RefusalError):
        af.export.vnnlib(WITHOUT_ANSWERS[what](), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


SETTINGS = [
    {"dtype": "float16"}, {"kinds": ["ranges"]}, {"margins": [-1]}, {"cells": 0}, {"timeout": float("inf")},
    {"box": {"x": (0, 2)}}, {"box": {"y": (0, 1)}}, {"box": [(0, 1), (0, 1)]},
]  # fmt: skip


@pytest.mark.parametrize("wrong", SETTINGS, ids=str)
def test_wrong_settings_are_refused(nets, tmp_path, wrong):
    with refused((af.RefusalError, af.DomainError)):
        af.export.vnnlib(nets["parabola"], tmp_path / "f", **wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changes", [{"status": "sampled", "bound": None, "parts": {}}, {"status": "conditional"}])
def test_unproved_bounds_are_refused(nets, tmp_path, monkeypatch, changes):
    found = replace(nets["parabola"].certificate, **changes)
    monkeypatch.setattr("attnforge.certification.known_answers.certify", lambda *_, **__: found)
    with refused(af.CertificateError):
        af.export.vnnlib(nets["parabola"], tmp_path / "f")
    assert list(tmp_path.iterdir()) == []
