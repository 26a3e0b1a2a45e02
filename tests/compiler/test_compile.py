"""compile: recognised forms, limits, refusals with reasons."""

import tracemalloc

import numpy as np
import pytest

import attnforge as af

FORMS = {
    "clamp(2*x - 0.5, -1, 1)": lambda x: np.clip(2 * x - 0.5, -1, 1),
    "min(max(x, -0.25), 0.5)": lambda x: np.minimum(np.maximum(x, -0.25), 0.5),
    "max(min(x, 0.5), -0.25)": lambda x: np.maximum(np.minimum(x, 0.5), -0.25),
    "relu(x - 0.25)": lambda x: np.maximum(x - 0.25, 0),
    "1 - relu(x)": lambda x: 1 - np.maximum(x, 0),
    "2*clamp(x, 0, 1) - 3": lambda x: 2 * np.clip(x, 0, 1) - 3,
    "-clamp(x, -0.5, 0.25)": lambda x: -np.clip(x, -0.5, 0.25),
    "3*x + 0.125": lambda x: 3 * x + 0.125,
    "min(x, 0.5)": lambda x: np.minimum(x, 0.5),
}


@pytest.mark.parametrize("construction", ["auto", "truncated_linear", "multihead_truncated_linear", "gate"])
@pytest.mark.parametrize("text", FORMS)
def test_recognised_forms(text, construction):
    tol = 0.02
    net = af.compile(text, {"x": (-1, 1)}, tol, construction=construction)
    x = np.linspace(-1, 1, 1001)
    error = np.abs(net(x) - FORMS[text](x)).max()
    assert error <= net.certificate.bound <= tol
    assert net.certificate.status == "proved"
    assert construction in ("auto", net.construction)


@pytest.mark.parametrize("construction", ["truncated_linear", "multihead_truncated_linear", "gate"])
def test_a_constant_has_no_interval_of_its_own(construction):
    """Either compiled within tol or refused with a reason."""
    try:
        net = af.compile("1.5", {"x": (-1, 1)}, 1e-3, construction=construction)
    except af.AttnforgeError as refusal:
        message = str(refusal)
    else:
        message = "compiled: " + str(np.abs(net(np.linspace(-1, 1, 11)) - 1.5).max() <= 1e-3)
    assert message.startswith("compiled: True") or "truncated" in message or "constant" in message


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_every_dtype_reaches_a_modest_tolerance(dtype):
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 0.2, dtype=dtype)
    assert net.dtype == net.certificate.dtype == dtype
    assert net.certificate.bound <= 0.2
    assert af.measure(net, points=2000).sup <= net.certificate.bound


def test_two_inputs_in_the_order_of_the_domain():
    text = "clamp(2*x + 0.3*y - 1, -1, 1)"
    first = af.compile(text, {"x": (-1, 1), "y": (-3, 3)}, 1e-6)
    second = af.compile(text, {"y": (-3, 3), "x": (-1, 1)}, 1e-6)
    point = np.array([0.75, -1.0])
    expected = 2 * 0.75 - 0.3 - 1
    assert first(point) == pytest.approx(expected, abs=1e-6)
    assert second(point[::-1]) == pytest.approx(expected, abs=1e-6)
    assert first(x=0.75, y=-1.0) == second(x=0.75, y=-1.0) == pytest.approx(expected, abs=1e-6)
    assert first.target.names == ("x", "y")


@pytest.mark.parametrize("domain", [[(-1, 1), (-3, 3)], af.Box([-1, -3], [1, 3])])
def test_indexed_inputs_need_no_names(domain):
    net = af.compile("clamp(2*x[0] + 0.3*x[1] - 1, -1, 1)", domain, 1e-6)
    assert net(np.array([0.75, -1.0])) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("domain", [[(-1, 1)], af.Box(-1, 1), af.Box([-1], [1]), {"x": (-1, 1)}])
def test_one_input_needs_no_name(domain):
    assert af.compile("clamp(2*x, -1, 1)", domain, 1e-6)(0.25) == pytest.approx(0.5, abs=1e-6)


def test_auto_takes_the_cheapest():
    assert af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-9).construction == "gate"


NOT_NUMBERS = [pytest.param(tol) for tol in ("small", None, [1e-3])]


@pytest.mark.parametrize("tol", [0, -1e-3, float("nan"), float("inf"), *NOT_NUMBERS])
def test_tolerances_that_make_no_sense(tol):
    with pytest.raises(af.ToleranceError, match=r"`tol` must be a positive number\. Got .*\. Ask for"):
        af.compile("x", {"x": (-1, 1)}, tol)


def test_other_words_that_make_no_sense():
    with pytest.raises(af.ToleranceError, match="norm"):
        af.compile("x", {"x": (-1, 1)}, norm="L2")
    with pytest.raises(af.RefusalError, match=r"dtype.*float64, float32.*float128"):
        af.compile("x", {"x": (-1, 1)}, dtype="float128")
    with pytest.raises(af.RefusalError, match=r"construction.*gate.*magic"):
        af.compile("x", {"x": (-1, 1)}, construction="magic")


@pytest.mark.parametrize(
    ("text", "domain", "error"),
    [
        ("clamp(x, -1, 1)", None, af.DomainError),
        ("clamp(x, -1, 1)", {"y": (-1, 1)}, af.TargetError),
        ("clamp(x + y, -1, 1)", [(-1, 1), (-1, 1)], af.TargetError),
        ("clamp(x, -1, 1)", {"x": (1, -1)}, af.DomainError),
        ("clamp(x, -1, 1)", {"x": (-1, float("inf"))}, af.DomainError),
        ("clamp(x, -1, 1)", {"x": 3}, af.DomainError),
        ("clamp(x, -1, 1)", 7, af.DomainError),
        ("clamp(x, -1,", {"x": (-1, 1)}, af.TargetError),
        ("1/x", {"x": (-1, 1)}, af.TargetError),
    ],
)
def test_targets_and_domains_that_do_not_fit(text, domain, error):
    with pytest.raises(error) as caught:
        af.compile(text, domain)
    assert len(str(caught.value)) > 30


def test_other_functions_are_refused_with_the_reason():
    with pytest.raises(af.AttnforgeError, match="truncated linear") as caught:
        af.compile("sin(8*x)", {"x": (-1, 1)}, construction="gate")
    assert "sin" in str(caught.value)


def test_a_refusal_lists_every_construction_and_its_reason():
    with pytest.raises((af.RefusalError, af.ToleranceError)) as caught:
        af.compile("clamp(1e3*x, -1000, 1000)", {"x": (-1, 1)}, 1e-9, dtype="bfloat16")
    for name in ("truncated_linear", "multihead_truncated_linear", "gate"):
        assert f"{name}: " in str(caught.value)


def test_too_fine_a_tolerance_says_what_can_be_had():
    with pytest.raises(af.ToleranceError, match=r"gate.*float32.*rounding alone.*Ask for tol >=") as caught:
        af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-12, construction="gate", dtype="float32")
    assert "float64" in str(caught.value)


def test_limits_are_kept():
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-2, construction="truncated_linear", max_anchors=20)
    assert net.anchors <= 20
    with pytest.raises(af.RefusalError, match=r"max_anchors=5.*anchors needed"):
        af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-2, construction="truncated_linear", max_anchors=5)
    with pytest.raises(af.RefusalError, match="bytes and"):
        af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-3, construction="truncated_linear", max_bytes=1000)


ABSURD = {
    "anchors": lambda: af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=10**12),
    "anchors beyond floats": lambda: af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=10**400),
    "literal anchors": lambda: af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=10**9, layout="literal"),
    "tokens": lambda: af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=10**12, heads=4),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=10**12),
    "sentinels": lambda: af.constructions.multihead_truncated_linear(
        [1.0], 0.0, -1, 1, tokens=10**7, heads=2, sentinels=10**6
    ),
    "outputs": lambda: af.constructions.gate([1.0], 0.0, -1, 1, outputs=10**12),
    "tolerance": lambda: af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-200, construction="truncated_linear"),
    "tolerance for heads": lambda: af.compile(
        "clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-13, construction="multihead_truncated_linear"
    ),
    "tokens of a gate": lambda: af.constructions.gate(
        [1.0], 0.0, -1, 1, layout="literal", domain=af.Box(-1, 1, shape=(100_000, 1))
    ),
}


@pytest.mark.parametrize("what", ABSURD)
def test_absurd_sizes_are_refused_before_memory_is_spent(what):
    tracemalloc.start()
    with pytest.raises((af.RefusalError, af.ToleranceError)):
        ABSURD[what]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_progress_says_what_is_tried(capsys):
    af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, progress=True)
    assert "gate" in capsys.readouterr().err
