"""Each dtype certifies what it can hold, tightly, and refuses what it cannot."""

import numpy as np
import pytest

import attnforge as af

PROMISED = [("bfloat16", 8), ("float16", 32), ("float32", 256)]
WIDE = np.random.default_rng(8).normal(size=10)


def build(setting, dtype, anchors):
    if setting == "unit":
        return af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=anchors, dtype=dtype, domain=af.Box(-2, 2))
    if setting == "default domain":
        return af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=anchors, dtype=dtype)
    return af.constructions.truncated_linear(WIDE, 0.3, -25, 25, anchors=anchors, dtype=dtype, domain=af.Box(-5, 5))


@pytest.mark.parametrize("setting", ["unit", "default domain", "ten features"])
@pytest.mark.parametrize(("dtype", "anchors"), PROMISED)
def test_promised_sizes_are_certified_tightly(setting, dtype, anchors):
    net = build(setting, dtype, anchors)
    measured = af.measure(net, points=4000).sup
    assert measured <= net.certificate.bound <= 10 * measured
    assert net.certificate.dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "anchors"),
    [
        ("bfloat16", 20_000),
        ("float32", 20_000),
        ("float16", 20_000),
    ],
)
def test_too_many_anchors_for_the_dtype_are_refused(dtype, anchors):
    with pytest.raises(af.RefusalError, match=rf"{dtype}.*{anchors} anchors.*[Uu]se fewer"):
        build("unit", dtype, anchors)


def test_bfloat16_cannot_hold_two_heads_together():
    with pytest.raises(af.RefusalError, match=r"bfloat16.*heads.*higher precision"):
        af.constructions.multihead_truncated_linear(
            [1.0], 0.0, -1, 1, tokens=5, heads=2, sentinels=1, dtype="bfloat16", domain=af.Box(-2, 2)
        )


def test_float64_does_not_refuse_them():
    assert build("unit", "float64", 20_000).certificate.bound < 1e-5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_beyond_the_dtype_are_refused(dtype):
    with pytest.raises(af.RefusalError, match=f"must fit {dtype}"):
        af.constructions.gate([1.0], 0.0, -1, 1, sharpness=1e39, dtype=dtype)


def test_a_certificate_for_float64_does_not_cover_bfloat16():
    """The mutation: the same weights run in a coarser dtype exceed the finer one's bound."""
    fine = af.constructions.truncated_linear([1.0], 0.3, -1, 1, anchors=100, domain=af.Box(-2, 2))
    coarse = type(fine)(fine.network, fine.target, fine.certificate, fine.construction, "bfloat16")
    assert af.measure(coarse, points=2000).sup > fine.certificate.bound
    with pytest.raises(af.RefusalError, match="bfloat16"):
        af.certify(coarse)


OVERFLOWING = {
    "queries": lambda: af.constructions.truncated_linear([1.0], 0.0, -0.01, 0.01, anchors=32, dtype="float16"),
    "gate's scores": lambda: af.constructions.gate([1.0], 0.0, -1, 1, sharpness=6e4, dtype="float16"),
    "inputs": lambda: af.constructions.gate([1.0], 0.0, -1, 1, dtype="float16", domain=af.Box(-1e5, 1e5)),
    "inputs, few anchors": lambda: af.constructions.truncated_linear(
        [1e-3], 0.0, -1, 1, anchors=8, dtype="float16", domain=af.Box(-1e5, 1e5)
    ),
}


@pytest.mark.parametrize("what", OVERFLOWING)
def test_overflow_inside_the_run_is_refused(what):
    """Finite weights whose products leave float16's range would run to infinity and NaN."""
    with pytest.raises(af.RefusalError):
        OVERFLOWING[what]()
