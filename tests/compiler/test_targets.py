"""What may be handed in as a target."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import sympy

import attnforge as af
from attnforge.compiler.targets import as_target, compared_with
from attnforge.targets import Formula, Formulas, Function

SQUARE = {"x": (-1, 1), "y": (0, 2)}


@pytest.mark.parametrize(
    ("target", "kind", "outputs"),
    [
        ("x + y", Formula, None),
        ("[x + y, x*y]", Formulas, 2),
        (["x + y", "x*y"], Formulas, 2),
        (["x + y", sympy.Symbol("x") * 2], Formulas, 2),
        (["t = x*y; t*t", "x"], Formulas, 2),
        (["x"], Formulas, 1),
        (" [x] ", Formulas, 1),
        ("t = sin(x); [t, t*y]", Formulas, 2),
        ("t = sin(x); t*t + y", Formulas, None),
        (af.formula(lambda x, y: np.sin(x) * y), Formula, None),
        (af.formula(lambda y, x: (x, y)), Formulas, 2),
        (lambda x: x[..., 0], Function, None),
    ],
)
def test_kinds(target, kind, outputs):
    found = as_target(target, SQUARE)
    assert type(found) is kind
    assert found.outputs == outputs


def test_axes_follow_the_names_of_a_traced_function():
    found = as_target(af.formula(lambda y, x: y - x), SQUARE)
    assert found.names == ("y", "x")
    assert found.domain.lower.tolist() == [0, -1]
    assert found.values(np.array([[2.0, 1.0]])).tolist() == [1.0]


def test_a_domain_of_other_names():
    with pytest.raises(af.DomainError, match="The inputs are"):
        as_target(af.formula(lambda a, b: a), SQUARE)
    with pytest.raises(af.TargetError, match="z, where the inputs are x, y"):
        as_target("[z, x]", SQUARE)
    with pytest.raises(af.DomainError, match="needs a domain"):
        as_target(af.formula(lambda x: x))


def test_formulas_on_another_domain():
    found = as_target(as_target("[x, y]", SQUARE), {"y": (0, 1), "x": (0, 3)})
    assert found.domain.upper.tolist() == [3, 1]


def test_a_traced_function_is_compiled_as_its_formula():
    net = af.compile(af.formula(lambda x: np.sin(3 * x)), {"x": (-1, 1)}, 1e-2)
    assert net.certificate.status == "proved"
    assert net.target.describe() == "sin(3*x)"


def test_a_traced_function_that_is_another_is_refused():
    with pytest.raises(af.TargetError, match="what was read of it"):
        af.compile(af.formula(lambda x: x if isinstance(x, float) else 2 * x), {"x": (0.5, 1)})


def test_other_targets_are_compared_with():
    own = as_target("x + y", SQUARE)
    assert isinstance(compared_with(own, af.formula(lambda x, y: x * y)), Formula)
    assert isinstance(compared_with(own, "[x, y]"), Formulas)


def test_what_is_no_target():
    with pytest.raises(af.TargetError, match="traced or other callable"):
        as_target(3, SQUARE)


@pytest.mark.parametrize(
    ("target", "match"),
    [
        (["x", 3], "list of formulas.*Got int at place 1.*Write"),
        (["[x, y]", "x"], "one output. Got '\\[x, y\\]' at place 0"),
        (["x, y"], "comma separates the arguments"),
        (["x", "z"], "Got z, where the inputs are x, y"),
        ([], "A table is a pair"),
    ],
)
def test_lists_that_are_no_formulas(target, match):
    with pytest.raises(af.TargetError, match=match):
        as_target(target, SQUARE)


def test_affine_formulas_need_no_attention():
    net = af.compile(["x", "2*x + y"], SQUARE)
    assert (net.heads, net.certificate.status) == (0, "proved")
    assert "without attention" in net.reason
    assert np.abs(net(x=0.3, y=0.2) - [0.3, 0.8]).max() <= net.certificate.bound < 1e-14
    first, read = net.network.layers
    weights = read.terms[0].map.copy()
    weights[1, 0] += 1e-3  # the proof sees it
    other = replace(net.network, layers=(first, replace(read, terms=(replace(read.terms[0], map=weights),))))
    assert 1e-3 <= net.with_network(other).certificate.bound < 1.1e-3


def test_nothing_heavy_is_imported():
    traced = "af.formula(lambda x: x)", {"torch", "sklearn", "onnx", "sympy"}
    taken = "from attnforge.compiler.targets import as_target; as_target('[x, x]', {'x': (0, 1)})", {"sklearn", "onnx"}
    for code, heavy in (traced, taken):
        code = f"import sys, attnforge as af\n{code}\nassert not {heavy} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)
