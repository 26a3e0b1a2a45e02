"""Verdicts: confirmed, rejected for what does not fit or is not true, unprovable, undecided."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.certificate import Estimate, target_digest
from attnforge.certification.certify import certify
from attnforge.certification.checker.agreement import disagreements
from attnforge.certification.checker.check import check
from attnforge.effort import Effort
from attnforge.model_file import check as check_file
from attnforge.network import Attention, Head, Linear, Network, Rows, Term, digest
from attnforge.targets import Box, Formula, Function, Table
from tests.laws.cases import SMALL


@pytest.fixture(scope="module")
def fitted():
    return af.compile("sin(2*x)", {"x": (0, 2)}, tol=1e-2)


def verdict(net, certificate=None, network=None, dtype=None, progress=lambda _: None, **effort):
    told = certificate or net.certificate
    return check(network or net.network, net.target, told, dtype or net.dtype, Effort(**effort), progress)


def lowered(certificate, factor):
    return replace(certificate, bound=factor * certificate.bound, parts={"enclosure": factor * certificate.bound})


def test_a_true_bound_is_confirmed(fitted):
    found = verdict(fitted)
    assert found.verdict == "confirmed"
    assert "holds on all of" in found.reason
    assert fitted.certificate.estimate.error <= found.outcome.reached <= fitted.certificate.bound


def test_a_bound_5_percent_below_the_error_is_rejected_with_a_witness(fitted):
    error = fitted.certificate.estimate.error
    found = verdict(fitted, lowered(fitted.certificate, 0.95 * error / fitted.certificate.bound))
    assert (found.verdict, found.what) == ("rejected", "bound")
    (x,) = found.outcome.at
    assert (
        abs(float(fitted.network(np.array([[x]]))[0, 0]) - np.sin(2 * x))
        >= found.outcome.seen * (1 - 1e-9)
        > 0.95 * error
    )


def test_few_cells_leave_it_undecided(fitted):
    found = verdict(fitted, cells=2)
    assert found.verdict == "undecided"
    assert "raise the limit" in found.reason


def test_progress_and_workers_change_nothing(fitted):
    told = []
    found = verdict(fitted, workers=2, progress=told.append)
    assert found == verdict(fitted)
    assert all(0 <= fraction <= 1 for fraction in told)


def test_what_the_certificate_is_not_about_is_named(fitted):
    certificate, other = fitted.certificate, af.constructions.gate([1.0], 0.0, -1, 1)
    changes = {
        "network": replace(certificate, digest=digest(other.network)),
        "target": replace(certificate, target=other.certificate.target),
        "domain": replace(certificate, domain=((0.0, 1.0),)),
        "dtype": replace(certificate, dtype="float32"),
    }
    for what, changed in changes.items():
        found = verdict(fitted, changed)
        assert (found.verdict, found.what) == ("rejected", what)
        assert disagreements(fitted.network, fitted.target, changed, fitted.dtype) == [what]
    assert disagreements(fitted.network, fitted.target, certificate, fitted.dtype) == []


def test_an_assumption_left_out_is_missed(fitted):
    found = verdict(fitted, replace(fitted.certificate, assumptions=()))
    assert (found.verdict, found.what) == ("rejected", "assumptions")


def test_nothing_is_confirmed_about_another_norm_or_without_a_bound(fitted):
    assert verdict(fitted, replace(fitted.certificate, norm="L2")).verdict == "unprovable"
    sampled = replace(fitted.certificate, status="sampled", bound=None, parts={})
    assert verdict(fitted, sampled).verdict == "unprovable"


def test_a_function_is_not_in_the_file(fitted):
    target = Function(np.sin, Box(0.0, 2.0, shape=(1,)))
    found = check(fitted.network, target, replace(fitted.certificate, target=target_digest(target)), "float64")
    assert found.verdict == "unprovable"
    assert "does not hold the target" in found.reason


LITERAL = SMALL | {  # a literal sequence pays for the square of its anchors
    "truncated_linear": lambda **k: af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=6, **k)
}


@pytest.mark.parametrize("layout", ["compact", "literal"])
@pytest.mark.parametrize("name", ["truncated_linear", "gate"])
def test_gadgets_in_both_layouts(name, layout):
    net = SMALL[name]() if layout == "compact" else LITERAL[name](layout="literal")
    assert verdict(net).verdict == "confirmed"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes_are_confirmed_in_their_own_arithmetic(dtype):
    net = af.constructions.gate([1.0], 0.25, -1, 2, dtype=dtype)
    found = verdict(net)
    assert found.verdict == "confirmed"
    assert af.measure(net, points=500).sup <= found.outcome.reached
    assert verdict(net, lowered(net.certificate, 1e-6), cells=200).verdict != "confirmed"


def test_several_tokens_each_with_its_own_form():
    net = af.constructions.truncated_linear([[1.0, -0.5], [0.5, 0.5]], [0.25, 0.0], -1, 2, anchors=6)
    assert verdict(net).verdict == "confirmed"
    swapped = replace(net.network, layers=tuple(map(_backwards, net.network.layers)))
    forged = replace(net.certificate, digest=digest(swapped))
    assert verdict(net, forged, swapped, cells=500).verdict != "confirmed"


def _backwards(layer):
    """One map a token, in reverse order."""
    if not isinstance(layer, Linear):
        return layer
    terms = tuple(Term(t.map[::-1] if t.map is not None and t.map.ndim == 3 else t.map, t.mix) for t in layer.terms)
    constant = layer.constant if layer.constant is None else layer.constant[::-1]
    return Linear(terms, constant)


def test_a_network_that_claims_nothing_is_certified_and_checked(tmp_path):
    """Two layers of random heads against the formula they happen to be near."""
    rng = np.random.default_rng(0)
    head = Head(
        2 * rng.normal(size=(2, 2)), rng.normal(size=(1, 2)), memory_keys=rng.normal(size=(4, 2)),
        memory_values=rng.normal(size=(4, 1)),
    )  # fmt: skip
    own = Head(np.eye(2), np.array([[1.0]]), key=np.eye(2), value=np.array([[0.5], [0.25]]), key_rows=Rows("own"))
    network = Network((Attention((head,), residual=True), Attention((own,))), 2, 1)
    assert network.construction == ""
    target = Formula("x/2 + y/4", Box(0.0, 1.0, shape=(2,)), ("x", "y"))
    certificate = certify(network, target)
    points = rng.uniform(0, 1, size=(5000, 2))
    error = np.abs(network(points[:, None])[:, 0, 0] - target.values(points)).max()
    assert certificate.status == "proved"
    assert error <= certificate.bound <= 1.1 * error
    assert check(network, target, certificate, "float64").verdict == "confirmed"
    low = replace(certificate, bound=0.95 * error, parts={})
    assert check(network, target, low, "float64").verdict == "rejected"


def test_a_network_of_more_outputs_is_rejected(fitted):
    two = replace(fitted.network, layers=(*fitted.network.layers, Linear((Term(np.ones((1, 2))),))))
    found = verdict(fitted, replace(fitted.certificate, digest=digest(two)), two)
    assert (found.verdict, found.what) == ("rejected", "network")


@pytest.fixture(scope="module")
def table():
    return af.compile(Table([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 0.0, 1.0]), tol=1e-2)


def test_tables_are_checked_at_their_points(table):
    found = verdict(table)
    assert found.verdict == "confirmed"
    assert "listed points" in found.reason
    error = table.certificate.estimate.error
    assert error * (1 - 1e-9) <= found.outcome.reached <= error * (1 + 1e-9) + 1e-12
    understated = replace(table.certificate, estimate=Estimate(error / 2, (0.0,)))
    assert verdict(table, understated).verdict == "rejected"
    assert verdict(table, replace(table.certificate, estimate=None)).verdict == "unprovable"
    assert verdict(table, cells=2).verdict == "undecided"


def test_no_bound_is_confirmed_between_the_points_of_a_table(table):
    bound = replace(table.certificate, status="proved", bound=1e-12, parts={"listed": 1e-12})
    assert verdict(table, bound).verdict != "confirmed"


def test_a_table_in_a_dtype_that_overflows_is_not_confirmed(table):
    layers = list(table.network.layers)
    lift = Linear((Term(np.array([[6e4]])),))
    back = Linear((Term(np.array([[1 / 6e4]])),))
    network = replace(table.network, layers=(lift, back, *layers))
    told = replace(table.certificate, digest=digest(network), dtype="float16")
    assert check(network, table.target, told, "float16").verdict == "undecided"


def test_a_saved_file_is_read_and_checked(fitted, tmp_path):
    fitted.save(tmp_path / "net")
    found = check_file(tmp_path / "net", workers=1)
    assert found.verdict == "confirmed"
    assert check_file(tmp_path / "net", cells=1, workers=1).verdict == "undecided"
