"""Several formulas as one target: values, enclosures, names, storage."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import attnforge as af
from attnforge.targets import Formula, Formulas, target_from_data
from attnforge.targets.expression import Apply, Constant, Variable, parse
from attnforge.targets.expression.limits import PROGRAM

BOX = af.Box([-1, -2], [1, 2])
POINTS = np.array([[0.5, 0.25], [-1.0, 2.0], [0.1, -0.3]])


def pair(text: str = "t = sin(x); [t + y, t*y, 3]") -> Formulas:
    return Formulas.from_text(text, BOX, ("x", "y"))


def network(widths: tuple[int, ...]) -> list[Apply]:
    """Trees of a tanh network: units are shared by the next layer."""
    rng = np.random.default_rng(0)
    layer = [Variable(f"x[{i}]") for i in range(widths[0])]
    for n, m in itertools.pairwise(widths):
        weight = rng.normal(size=(n, m)) / np.sqrt(n)
        sums = [
            Apply("+", tuple(Apply("*", (Constant(w), u)) for w, u in zip(column, layer, strict=True)))
            for column in weight.T
        ]
        layer = [Apply("tanh", (each,)) for each in sums]
    return layer


def test_values_are_those_of_each_formula():
    target, alone = pair(), [Formula(text, BOX, ("x", "y")) for text in ("sin(x) + y", "sin(x)*y", "3")]
    assert target.outputs == target.written == 3
    assert target.layout == "function"
    for one in (target.values, target.accurate):
        expected = np.stack([getattr(each, one.__name__)(POINTS) for each in alone], axis=-1)
        assert one(POINTS).tolist() == expected.tolist()
        assert one(POINTS[None, :2]).shape == (1, 2, 3)
        assert one(POINTS[:0]).shape == (0, 3)
    assert target.values(POINTS.astype(np.longdouble)).dtype == np.longdouble


def test_a_scalar_has_no_axis_of_outputs():
    target = pair("t = sin(x); t*t + y")
    assert target.outputs is None
    assert target.written == 1
    assert target.values(POINTS).shape == target.enclosed(POINTS).mid.shape == (3,)
    assert np.allclose(target.values(POINTS), np.sin(POINTS[:, 0]) ** 2 + POINTS[:, 1])


def test_digits_that_cancel_are_kept_in_every_output():
    target = pair("[(x + 1e30) - 1e30, y, 1e17*((1 + 1e-17*x) - 1)]")
    expected = np.stack([POINTS[:, 0], POINTS[:, 1], POINTS[:, 0]], axis=-1)
    assert np.allclose(target.values(POINTS), expected, rtol=1e-12, atol=0)
    assert np.allclose(target.accurate(POINTS).astype(float), expected, rtol=1e-15, atol=0)
    balls = target.enclosed(POINTS)
    assert np.all(np.abs(balls.mid - expected) <= balls.rad + 1e-16)


def test_a_small_output_beside_a_large_one_keeps_its_own_digits():
    """What is lost is judged by each output's own size."""
    target = pair("[1e30*y, (x + 1e5) - 1e5]")
    assert np.allclose(target.values(POINTS)[:, 1], POINTS[:, 0], rtol=1e-11, atol=0)


def test_enclosures_contain_the_values():
    target = pair()
    balls = target.enclosed(POINTS)
    assert balls.mid.shape == (3, 3)
    assert np.all(np.abs(target.accurate(POINTS) - balls.mid) <= balls.rad + 2.0**-52)


def test_no_value_is_nan():
    target = pair("[log(x + 0.75), y]")
    values = target.values(POINTS)
    assert np.isnan(values[1, 0])
    assert not np.isfinite(target.enclosed(POINTS).rad[1, 0])
    assert values[1, 1] == 2.0


@pytest.mark.parametrize("text", ["t = sin(x); [t + y, t*y, 3]", "t = sin(x); t*t + y", "[x]"])
def test_stored_and_back(text):
    target = pair(text)
    again = target_from_data(*target.to_data())
    assert isinstance(again, Formulas)
    assert (again.trees, again.names, again.outputs) == (target.trees, target.names, target.outputs)
    assert again.to_data()[0] == target.to_data()[0]
    assert np.array_equal(again.domain.lower, BOX.lower)


def test_a_network_is_a_small_target():
    trees = network((8, 64, 64, 3))
    target = Formulas(trees, af.Box(-1, 1), tuple(f"x[{i}]" for i in range(8)))
    assert target.describe() == "3 formulas of 8 inputs, 5,062 shared nodes"
    again = target_from_data(*target.to_data())
    assert again.trees == target.trees
    points = np.random.default_rng(1).uniform(-1, 1, size=(50, 8))
    assert again.values(points).tolist() == target.values(points).tolist()
    assert target.lipschitz() is None


def test_deep_targets_are_copied_and_pickled():
    node = Variable("x")
    for _ in range(3000):
        node = Apply("sin", (node,))
    target = Formulas([node], af.Box([0], [1]), scalar=True)
    for again in (copy.deepcopy(target), pickle.loads(pickle.dumps(target))):
        assert again.trees == target.trees


def test_equal_parts_are_one_object():
    a, b = Formulas([parse("sin(x) + 1"), parse("2*sin(x)")], af.Box([0], [1])).trees
    assert a.arguments[0] is b.arguments[1]


def test_the_text_is_shown_if_short():
    assert pair().describe() == "t1 = sin(x); [t1 + y, t1*y, 3]"
    assert pair("t = sin(x); t*t + y").describe() == "t1 = sin(x); t1*t1 + y"
    assert pair("[x" + " + x" * 100 + "]").describe() == "1 formula of 2 inputs, 1 shared node"


def test_the_lipschitz_constant_is_the_largest():
    found = pair("[2*x + y, sin(x)]").lipschitz()
    assert found is not None
    assert found.proved
    assert found.constant == pytest.approx(3.0)
    assert pair("[x, sqrt(abs(y) + x*0)]").lipschitz() is None


def test_on_another_box():
    other = pair().on(af.Box([0, 0], [1, 1]))
    assert other.domain.upper.tolist() == [1.0, 1.0]
    assert other.names == ("x", "y")


def test_names_of_a_vector():
    assert Formulas.from_text("[x[1], 2]", af.Box(0, 1, shape=(3,))).names == ("x[0]", "x[1]", "x[2]")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Formulas([], BOX, ("x", "y")), "sequence of expression trees"),
        (lambda: Formulas(["x"], BOX, ("x", "y")), "sequence of expression trees"),
        (lambda: Formulas([Variable("x"), Variable("y")], BOX, ("x", "y"), scalar=True), "one formula"),
        (lambda: Formulas([Variable("z")], BOX, ("x", "y")), "z in the formula"),
        (lambda: Formulas([Variable("x")], BOX, ("x", "e")), "name of its own"),
        (lambda: Formulas([Variable("x")], af.Box(0, 1, shape=(2, 2)), ("x", "y")), "one axis an input"),
        (lambda: pair("[x, 1/x]"), "no finite value of output 1 at x=0, y=0"),
        (lambda: pair("[x, y]").truncated_form(), "truncated linear"),
        (
            lambda: Formulas([Apply("+", tuple(Constant(float(i)) for i in range(PROGRAM.nodes)))], BOX, ("x", "y")),
            "at most 200,000 nodes",
        ),
    ],
)
def test_refusals(make, match):
    with pytest.raises(af.TargetError, match=match):
        make()


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "[x, z]"},
        {"text": "x = 1; [x]"},
        {"text": "[x, 1/x]"},
        {"text": "__import__('os')"},
        {"text": 3},
        {"names": ["x"]},
        {"names": ["x", "x"]},
        {"names": 5},
        {"names": ["x", "sin"]},
    ],
)
def test_edited_files_are_refused(changes):
    data, arrays = pair().to_data()
    with pytest.raises(af.AttnforgeError):
        target_from_data(data | changes, arrays)


def test_towers_in_a_file_are_read_in_time():
    """Squares of squares have numbers of many digits, which are enclosed and not written out."""
    text = "; ".join(["t1 = x/2", *(f"t{i + 1} = t{i}*t{i} + y" for i in range(1, 2000)), "[t2000/1e300]"])
    data, arrays = pair().to_data()
    target = target_from_data(data | {"text": text}, arrays)
    assert target.values(np.zeros((3, 2))).tolist() == [[0.0]] * 3


def test_jumps_and_poles_are_refused_as_of_one_formula():
    with pytest.raises(af.TargetError, match=r"branches of where.* must meet"):
        af.compile("t = x^2; [where(x < 0, t, t + 1), x]", {"x": (-1, 2)}, tol=1e-2)
    with pytest.raises(af.TargetError, match="gamma"):
        Formulas.from_text("[gamma(x), x]", af.Box([-1.5], [2.5]))
    assert Formulas.from_text("d = x - 1; [where(d < 0, 0, d), gamma(x)]", af.Box([0.5], [2.5])).outputs == 2


def test_inputs_that_no_formula_reads_are_named():
    assert Formulas.from_text("[x, 2*x]", af.Box([0, 0], [1, 1]), ("x", "y")).unused == ("y",)
