"""Arguments of the wrong type are refused in words: requirement, value got, remedy."""

import pytest

import attnforge as af

LINE = {"x": (-1, 1)}


@pytest.fixture(scope="module")
def net():
    return af.compile("clamp(x, 0, 1)", LINE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tol", "a"),
        ("tol", None),
        ("dtype", 3),
        ("construction", None),
        ("norm", 2),
        ("effort", 3),
        ("timeout", "a"),
        ("workers", "a"),
        ("workers", 1.5),
        ("max_anchors", "a"),
        ("max_bytes", "a"),
        ("require", 3),
        ("polish", "values"),
        ("polish", 3),
        ("tokens", "a"),
    ],
)
def test_arguments_of_compile(name, value):
    with pytest.raises(af.AttnforgeError) as caught:
        af.compile("sin(x)", LINE, **{name: value})
    assert caught.value.got
    assert caught.value.remedy
    assert f"`{name}`" in str(caught.value)


@pytest.mark.parametrize("call", [af.measure, af.attack, af.polish, af.optimality, af.certify, af.load, af.check])
def test_what_verbs_take(call):
    with pytest.raises(af.AttnforgeError, match="Got int"):
        call(3)


def test_methods(net):
    with pytest.raises(af.FileFormatError, match=r"Got int.*net\.save"):
        net.save(3)
    with pytest.raises(af.FileFormatError, match=r"Got Compiled.*net\.save\(path\) writes one"):
        af.check(net)
    with pytest.raises(af.CertificateError, match=r"Got int.*module\.network"):
        net.with_network(3)
    with pytest.raises(af.TargetError, match="whole number"):
        af.measure(net, points=1.5)
    with pytest.raises(af.TargetError, match="`seconds`"):
        af.attack(net, seconds="a")


@pytest.mark.parametrize("shape", [3, "ab", (-1,), (1.5,), (0,)])
def test_shapes_of_boxes(shape):
    with pytest.raises(af.DomainError, match="positive whole numbers"):
        af.Box(0, 1, shape=shape)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sharpness", None), ("sharpness", [1]), ("domain", (0, 1)), ("output", "a"), ("outputs", "a"), ("anchors", None)],
)
def test_arguments_of_a_construction(name, value):
    with pytest.raises(af.AttnforgeError, match=r"Got"):
        af.constructions.truncated_linear([1.0], 0.0, -1, 1, **{"anchors": 3, name: value})


def test_other_constructions():
    with pytest.raises(af.RefusalError, match="`sharpness`"):
        af.constructions.gate([1.0], 0.0, -1, 1, sharpness="a")
    with pytest.raises(af.RefusalError, match="`sharpness`"):
        af.constructions.tensor_grid("sin(x)", LINE, anchors=8, sharpness="a")
    with pytest.raises(af.DomainError, match="Got 3"):
        af.constructions.logistic([1.0], domain=3)
    with pytest.raises(af.TargetError, match="Lipschitz constant"):
        af.Lipschitz("a")
    with pytest.raises(af.RefusalError, match="A sweep over sizes takes"):
        af.sweep("sin(x)", LINE, anchors=4, construction=3)


def test_domains_of_clamps_may_be_intervals():
    net = af.constructions.gate([1.0, 2.0], 0.0, -1, 1, domain=[(-1, 1), ("-pi", "pi")])
    assert net.domain.upper.tolist() == [1, 3.141592653589793]
