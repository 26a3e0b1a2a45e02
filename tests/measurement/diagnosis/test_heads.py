"""Signatures that need no target, on heads made by hand."""

import numpy as np

from attnforge.measurement.diagnosis import AttentionWeights, diagnose_views, weights_views
from attnforge.measurement.diagnosis.view import HeadView


def signatures(view: HeadView) -> list[tuple[str, str]]:
    return [(f.signature, f.severity) for f in diagnose_views([view]).findings]


QUERIES = np.column_stack([np.linspace(0, 9, 50), np.ones(50)])


def row(c: float, count: int = 10) -> np.ndarray:
    at = np.arange(float(count))
    return c * np.column_stack([2 * at, -at * at])


def test_uniform_attention_over_anchors_is_a_warning_and_an_average_of_tokens_a_note() -> None:
    assert signatures(HeadView(0, 0, QUERIES, row(1e-5), constant=True)) == [("uniform attention", "warning")]
    assert signatures(HeadView(0, 0, QUERIES, row(1e-5))) == [("uniform attention", "note")]
    assert signatures(HeadView(0, 0, QUERIES, row(1e-5), ours=False)) == [("uniform attention", "warning")]
    assert signatures(HeadView(0, 0, QUERIES, 0 * row(1.0)[:4], ours=False)) == [("uniform attention", "warning")]


def test_soft_attention_is_not_uniform() -> None:
    assert signatures(HeadView(0, 0, QUERIES, row(0.3), constant=True)) == []


def test_equal_keys_with_different_values() -> None:
    keys, values = row(3.0)[[0, 1, 1, 2, 3]], np.arange(5.0)[:, None]
    assert signatures(HeadView(0, 0, QUERIES, keys, values=values, constant=True)) == [("duplicate keys", "warning")]
    same = values[[0, 1, 1, 2, 3]]
    assert signatures(HeadView(0, 0, QUERIES, keys, values=same, constant=True)) == [("duplicate keys", "note")]


def test_numbers_below_the_normal_ones() -> None:
    small = HeadView(0, 0, QUERIES[:, :1] * 1e-9, np.linspace(0, 9, 5)[:, None] * 1e8, dtype="float16")
    found = signatures(small)
    assert ("score overflow", "fault") in found  # 9e8 does not fit
    small = HeadView(0, 0, QUERIES[:, :1] * 1e-9, np.linspace(0, 6e4, 3)[:, None], dtype="float16")
    assert ("underflow", "fault") in signatures(small)


def test_too_many_uncentred_anchors_in_float32_lose_the_argmax() -> None:
    at, c = np.arange(16384.0), 17.0
    heads = AttentionWeights(np.diag([2 * c, -c]), memory_keys=np.column_stack([at, at * at]), scale=1.0)
    x = np.column_stack([np.random.default_rng(0).uniform(0, 16383, 100), np.ones(100)])[:, None]
    found = diagnose_views(weights_views(heads, x))
    assert [f.signature for f in found.faults] == ["lost argmax"]
    assert "Recentre" in found.findings[0].remedy
    few = AttentionWeights(np.diag([2 * c, -c]), memory_keys=np.column_stack([at, at * at])[:64], scale=1.0)
    x[..., 0] *= 63 / 16383
    assert diagnose_views(weights_views(few, x)).healthy


def test_equal_scores_in_somebody_s_module_are_a_warning_and_have_no_range() -> None:
    (finding,) = diagnose_views([HeadView(0, 0, QUERIES, 0 * row(1.0), ours=False)]).findings
    assert (finding.signature, finding.severity) == ("uniform attention", "warning")
    assert "All scores are equal" in finding.cause
    assert "range of scores 0" in str(finding)
    (note,) = diagnose_views([HeadView(0, 0, QUERIES, 0 * row(1.0))]).findings
    assert note.severity == "note"


def test_too_many_keys_are_named_where_they_overflow() -> None:
    at = np.arange(-1000.0, 1000.0)
    queries = np.column_stack([np.linspace(-999, 999, 50), np.full(50, -1.0)])
    view = HeadView(0, 0, queries, np.column_stack([2 * at, at * at]), dtype="float16", constant=True)
    (finding,) = diagnose_views([view]).faults
    assert finding.signature == "score overflow"
    assert "2,000 keys are too many for float16" in finding.cause
    assert "use at most about 511 keys" in finding.remedy  # 2000 sqrt(65504 / 1e6)
    few = HeadView(0, 0, 1e4 * queries, np.column_stack([2 * at, at * at])[998:1002], dtype="float16", constant=True)
    assert "too many" not in diagnose_views([few]).faults[0].cause


def test_a_head_that_is_called_again() -> None:
    soft, hard = (HeadView(0, 0, QUERIES[1:], row(c), name="") for c in (0.01, 20.0))
    assert [f.signature for f in diagnose_views([soft, hard]).findings if f.severity != "note"] == [
        "interpolation drift"
    ]
    assert diagnose_views([soft, soft]).healthy
    assert diagnose_views([hard, soft]).healthy
    theirs = [HeadView(0, 0, QUERIES[1:], row(c), ours=False) for c in (0.1, 20.0)]
    assert diagnose_views(theirs).healthy
