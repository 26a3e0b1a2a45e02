"""A second input, of a fixed number of rows or of any, and the linear maps that it passes first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import (
    Attention,
    Linear,
    Network,
    Term,
    apply,
    attention_weights,
    check_architecture,
    count_parameters,
    describe,
    digest,
    flatten,
    rounded,
    unflatten,
)
from tests.network.examples import TWO_INPUTS, head, numbers, reference, reference_weights
from tests.refusals import refused

SCALE, LENGTHEN = TWO_INPUTS.context_layers
(HEAD,) = TWO_INPUTS.heads
ANY = replace(TWO_INPUTS, context=(None, 4), context_layers=())


def lengthened(context):
    """The second input through its two maps, by the reference's loops."""
    return reference(Network((SCALE, LENGTHEN), 3, 2), context)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_attention_reads_the_lengthened_context(batch):
    tokens, context = numbers(*batch, 5, 2), numbers(*batch, 2, 3)
    found, plain = apply(TWO_INPUTS, tokens, context), replace(TWO_INPUTS, context=(6, 4), context_layers=())
    for index in np.ndindex(batch):
        told = lengthened(context[index])
        np.testing.assert_allclose(found[index], reference(plain, tokens[index], told), rtol=1e-12)
        ((weights,),) = attention_weights(TWO_INPUTS, tokens[index], context[index])
        np.testing.assert_allclose(weights, reference_weights(HEAD, tokens[index], told), rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_any_number_of_rows_is_read(rows):
    tokens, context = numbers(4, 2), numbers(rows, 4, seed=5)
    np.testing.assert_allclose(apply(ANY, tokens, context), reference(ANY, tokens, context), rtol=1e-13)
    scaled = replace(ANY, context=(None, 1), context_layers=(Linear((Term(numbers(1, 4)),)),))
    told = numbers(rows, 1)
    np.testing.assert_allclose(apply(scaled, tokens, told), apply(ANY, tokens, told @ numbers(1, 4)), rtol=1e-13)
    assert check_architecture(scaled) == 2


def test_one_context_serves_a_batch_and_chunks_do_not_show(monkeypatch):
    for network, context in ((TWO_INPUTS, numbers(2, 3)), (ANY, numbers(7, 4, seed=5))):
        tokens = numbers(9, 5, 2)
        whole = apply(network, tokens, context)
        with monkeypatch.context() as patch:
            patch.setitem(apply.__globals__, "CHUNK", 2 * 5 * 7)  # query-key pairs of two batch entries, or less
            np.testing.assert_allclose(apply(network, tokens, context), whole, rtol=1e-14)
        np.testing.assert_allclose(whole[3], apply(network, tokens[3], context), rtol=1e-14)


@pytest.mark.parametrize(("network", "shape"), [
    *((TWO_INPUTS, shape) for shape in ((3,), (3, 3), (2, 2), (4, 6, 4))), *((ANY, shape) for shape in ((5, 2), (4,))),
])  # fmt: skip
def test_a_second_input_of_another_shape_is_refused(network, shape):
    for call in (apply, attention_weights):
        with refused(af.DomainError):
            call(network, numbers(5, 2), np.zeros(shape))


def test_a_second_input_that_is_missing_or_not_read_is_refused():
    memory = Network((Attention((head(memory=5),)),), 3)
    for call in (lambda: TWO_INPUTS(numbers(5, 2)), lambda: memory(numbers(4, 3), numbers(4, 3))):
        with refused(af.DomainError):
            call()


def test_it_survives_flattening():
    skeleton, arrays = flatten(TWO_INPUTS)
    assert [entry["kind"] for entry in skeleton["context_layers"]] == ["linear", "linear"]
    assert {"context0.term0.map", "context1.term1.mix", "context1.constant"} <= set(arrays)
    again = unflatten(skeleton, arrays)
    assert digest(again) == digest(TWO_INPUTS)
    np.testing.assert_array_equal(again(numbers(5, 2), numbers(2, 3)), TWO_INPUTS(numbers(5, 2), numbers(2, 3)))
    assert "context_layers" not in flatten(ANY)[0]  # as it always was
    assert unflatten(*flatten(ANY)).context == (None, 4)
    assert digest(ANY) != digest(replace(ANY, context=(5, 4)))


def test_every_weight_of_the_context_is_counted_digested_and_rounded():
    assert count_parameters(TWO_INPUTS)[0] == 18 + 6 + 2 * (12 + 12) + 24 + 4 + 2 + 8 + 4
    other = Linear(SCALE.terms, numbers(2, 3) + 1e-9)
    assert digest(replace(TWO_INPUTS, context_layers=(other, LENGTHEN))) != digest(TWO_INPUTS)
    assert np.abs(rounded(TWO_INPUTS, "bfloat16").context_layers[0].constant - SCALE.constant).max() > 1e-4


@pytest.mark.parametrize("edit", [
    {"context_layers": [{"kind": "softmax"}]}, {"context": [None, None]}, {"context": [None]}, {"context": ["n", 3]},
])  # fmt: skip
def test_files_cannot_hold_other_second_inputs(edit):
    skeleton, arrays = flatten(TWO_INPUTS)
    with refused(af.FileFormatError):
        unflatten(skeleton | edit, arrays)


def test_it_is_printed():
    lines = describe(TWO_INPUTS).splitlines()
    assert lines[0].startswith("Network on (n, 2) tokens and (2, 3) of a second input: 114 parameters")
    assert lines[1].startswith("  second input 1. linear     Z -> Z P[2, 3, 3] + constant")
    assert lines[2].startswith("  second input 2. linear     Z -> 2 terms Q[6, 2] Z P[3, 4] + constant")
    assert "all tokens of the second input" in lines[3]
    assert "(n, 2) tokens and (n, 4) of a second input" in describe(ANY)
