"""Functions of a whole prompt: one network for every length, proved for all prompts of a box, refused elsewhere."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.certification.in_context.prompt_formula import certify_prompt_formula
from attnforge.network import Rows
from attnforge.runtime.audit import audit
from attnforge.targets import Box, PromptFormula

SLOPE = "tokens.mean(x*y)/tokens.mean(x^2)*q"
SQUARE = {"x": (-1, 1), "y": (-1, 1), "q": (-1, 1)}
ENOUGH = {"tokens.mean(x^2)": (0.2, None)}
VARIANCE = "tokens.mean(x^2) - tokens.mean(x)^2"
COVARIANCE = "(tokens.mean(x*y) - tokens.mean(x)*tokens.mean(y))"
SPREAD = {VARIANCE: (0.3, None), VARIANCE.replace("x", "y"): (0.3, None)}


@pytest.fixture(scope="module")
def slope():
    return af.compile(SLOPE, SQUARE, 1e-8, given=ENOUGH)


def drawn(target, n, count=100, seed=0):
    """Assembled prompts of the box that meet the conditions."""
    tokens = np.random.default_rng(seed).uniform(target.box.lower, target.box.upper, (count, n, len(target.names)))
    tokens[..., len(target.features) :] = tokens[:, :1, len(target.features) :]
    return tokens[target.meets(tokens)]


def largest_error(network, target, n, seed=0):
    tokens = drawn(target, n, seed=seed)
    with np.errstate(all="ignore"):
        found = np.abs(network(tokens)[:, 0, 0] - target.values(tokens.astype(np.longdouble))).max(initial=0.0)
    return np.inf if np.isnan(found) else float(found)


@pytest.mark.parametrize("n", [3, 30, 1000, 100_000])
def test_least_squares_prediction_for_every_length(slope, n):
    rng = np.random.default_rng(n)
    x, y, q = rng.uniform(0.5, 1, n), rng.uniform(-1, 1, n), 0.7
    exact = q * (x.astype(np.longdouble) * y).mean() / (x.astype(np.longdouble) ** 2).mean()
    assert abs(slope(np.stack([x, y], axis=1), q) - exact) <= 1e-11


CASES = {
    "variance": (VARIANCE, {"x": (-1, 1)}, None, None),
    "correlation": (f"{COVARIANCE}/sqrt(({VARIANCE})*({VARIANCE.replace('x', 'y')}))", "xy", SPREAD, None),
    "least squares": (
        f"tokens.mean(y) + {COVARIANCE}/({VARIANCE})*(q - tokens.mean(x))",
        SQUARE,
        {VARIANCE: (0.5, None)},
        None,
    ),
    "kernel average": (
        "tokens.mean(y*exp(-2*(x - q)^2))/tokens.mean(exp(-2*(x - q)^2))",
        SQUARE,
        {"tokens.mean(exp(-2*(x - q)^2))": (0.2, None)},
        "q",
    ),
    "linear attention": ("q*tokens.mean(k*v)", {"k": (-1, 1), "v": (-1, 1), "q": (-1, 1)}, None, None),
    "a mean alone": ("tokens.mean(x)", {"x": (0, 3)}, None, None),
}


@pytest.mark.parametrize("name", CASES)
def test_proved_for_all_prompts_of_up_to_a_million_tokens(name):
    text, domain, given, query = CASES[name]
    domain = {"x": (-1, 1), "y": (-1, 1)} if domain == "xy" else domain
    net = af.compile(text, domain, 1e-8, given=given, query=query)
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-8
    assert "at most 1,000,000 tokens" in " ".join(net.certificate.assumptions)
    for n in (1, 2, 7, 200):
        assert largest_error(net.network, net.target, n) <= net.certificate.bound


def test_the_bound_as_a_function_of_n(slope):
    """What the certificate says of n tokens is above what is proved of so many, and rounding is less for fewer."""
    text = next(each for each in slope.certificate.assumptions if each.startswith("of n tokens"))
    base, _, rate, _ = text.removeprefix("of n tokens the bound is at most ").split()
    bounds = [slope.certify(n).bound for n in (10, 1000, 10**6)]
    assert bounds == sorted(bounds)
    for n, bound in zip((10, 1000, 10**6), bounds, strict=True):
        assert bound <= (float(base) + float(rate) * n) * 1.01
    assert bounds[0] < bounds[2] / 5


def test_one_digest_whatever_the_lengths(slope):
    shapes = [(3, 2), (4, 5, 2)]
    for shape in shapes:
        slope(np.full(shape, 0.5), 0.1)
    assert slope.certificate.digest == af.certify(slope).digest
    assert slope.network.tokens is None


def test_shapes_and_kinds(slope):
    prompt = np.random.default_rng(0).uniform(0.5, 1, (4, 6, 2))
    assert slope(prompt, 0.3).shape == (4,)
    assert slope(prompt, np.full(4, 0.3)).shape == slope(prompt, np.full((4, 1), 0.3)).shape == (4,)
    assert slope(prompt[0], 0.3).shape == ()
    assert slope(prompt.astype(np.float32), 0.3).dtype == np.float32
    tensor = slope(torch.from_numpy(prompt), torch.tensor(0.3, dtype=torch.float64))
    np.testing.assert_allclose(tensor.numpy(), slope(prompt, 0.3), rtol=1e-15)
    module = slope.module()
    query = torch.full((4, 1), 0.3, dtype=torch.float64)
    np.testing.assert_allclose(module(torch.from_numpy(prompt), query).numpy(), slope(prompt, 0.3), rtol=1e-14)
    one = af.compile("tokens.mean(x^2)", {"x": (0, 1)}, 1e-6)
    np.testing.assert_allclose(one([0.0, 0.5, 1.0]), 1.25 / 3, atol=1e-6)


def test_it_is_softmax_attention_and_linear_maps(slope):
    assert {"_softmax"} <= audit(slope.module().core, torch.from_numpy(drawn(slope.target, 5)))


def test_saved_and_loaded(slope, tmp_path):
    slope.save(tmp_path / "slope.safetensors")
    again, prompt = af.load(tmp_path / "slope.safetensors"), np.full((3, 2), 0.5)
    assert again(prompt, 0.25) == slope(prompt, 0.25)
    assert again.certificate == slope.certificate
    assert again.target.describe() == slope.target.describe()


def test_float32_is_proved_for_fewer_tokens():
    net = af.compile(SLOPE, SQUARE, 1e-2, given=ENOUGH, dtype="float32", tokens=1000)
    prompt = np.random.default_rng(1).uniform(0.5, 1, (50, 300, 2))
    exact = 0.5 * (prompt[..., 0] * prompt[..., 1]).mean(axis=1) / (prompt[..., 0] ** 2).mean(axis=1)
    assert np.abs(net(prompt, 0.5) - exact).max() <= net.certificate.bound <= 1e-2


REFUSED = {
    "no condition": (SLOPE, SQUARE, {}, af.RefusalError, r"tokens.mean\(x\^2\)` in \[0, 1\]"),
    "root": ("sqrt(" + VARIANCE + ")", {"x": (-1, 1)}, {}, af.RefusalError, "State a condition"),
    "beyond rounding": (SLOPE, SQUARE, {"given": ENOUGH, "tol": 1e-11}, af.ToleranceError, "rounding takes"),
    "nested": ("tokens.mean(x - tokens.mean(x))", {"x": (0, 1)}, {}, af.TargetError, "column 17"),
    "no tokens": ("x*tokens.mean(x)", {"x": (0, 1)}, {}, af.TargetError, "feature of their own"),
    "idle name": ("tokens.mean(x)", {"x": (0, 1), "z": (0, 1)}, {}, af.TargetError, "`z` is not"),
    "strange query": ("tokens.mean(x)", {"x": (0, 1)}, {"query": "z"}, af.TargetError, "names of the domain"),
    "strange mean": (
        "tokens.mean(x)",
        {"x": (0, 1)},
        {"given": {"tokens.mean(x^3)": (0, 1)}},
        af.TargetError,
        "Use to",
    ),
    "strange ends": (
        "tokens.mean(x)",
        {"x": (0, 1)},
        {"given": {"tokens.mean(x)": (1, 0)}},
        af.TargetError,
        "in order",
    ),
    "no prompt": ("tokens.mean(x)", {"x": (0, 1)}, {"given": {"tokens.mean(x)": (3, None)}}, af.TargetError, "Weaken"),
    "no prompt of that variance": (
        VARIANCE,
        {"x": (-1, 1)},
        {"given": {VARIANCE: (2, None)}},
        af.TargetError,
        "Weaken",
    ),
    "no tokens at all": ("tokens.mean(x)", {"x": (0, 1)}, {"tokens": 0}, af.TargetError, "at least 1"),
    "not of a prompt": ("x^2", {"x": (0, 1)}, {"given": {"x": (0, 1)}}, af.TargetError, "functions of a prompt"),
    "by name": ("tokens.mean(x)", {"x": (0, 1)}, {"construction": "graph"}, af.TargetError, "one construction"),
    "polished": ("tokens.mean(x)", {"x": (0, 1)}, {"polish": True}, af.TargetError, "without polish"),
    "no domain": ("tokens.mean(x)", None, {}, af.DomainError, "needs a domain"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, domain, options, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        af.compile(text, domain, options.pop("tol", 1e-6), **options)


def test_wrong_prompts(slope):
    prompt = np.full((4, 2), 0.5)
    for call, match in (
        (lambda: slope(prompt), "no query"),
        (lambda: slope(2.5 * prompt, 0.1), "certified domain"),
        (lambda: slope(0 * prompt, 0.1), "condition 0.2 <= tokens.mean"),
        (lambda: slope(prompt[:, :1], 0.1), "columns are x, y"),
        (lambda: slope(prompt[:0], 0.1), "columns are x, y"),
        (lambda: slope(prompt, [0.1, 0.2, 0.3]), "query"),
        (lambda: slope.certify(10**7), "1,000,000"),
        (lambda: af.compile("tokens.mean(x)", {"x": (0, 1)}, tokens=3)([0.1] * 4), "at most 3 tokens"),
    ):
        with pytest.raises(af.AttnforgeError, match=match):
            call()


def test_a_condition_is_used_only_for_what_it_is_about():
    """Of a multiple, too; another expression keeps the range that the box gives it."""
    box, names = Box([-1.0], [1.0]), ("x",)
    twice = "1/(2*tokens.mean(x^2) - 2*tokens.mean(x)^2)"
    PromptFormula(twice, box, names, given={VARIANCE: (0.1, None)}).check_defined()
    other = PromptFormula("1/(tokens.mean(x^2) - tokens.mean(x))", box, names, given={"tokens.mean(x)": (0.1, None)})
    with pytest.raises(af.RefusalError, match="State a condition"):
        other.check_defined()


def arrays(part, path=()):
    if isinstance(part, np.ndarray):
        yield path
    elif isinstance(part, tuple):
        for i, each in enumerate(part):
            yield from arrays(each, (*path, i))
    elif hasattr(part, "__dataclass_fields__"):
        for field in fields(part):
            if field.name != "claims":
                yield from arrays(getattr(part, field.name), (*path, field.name))


def changed(part, path, change):
    if not path:
        return change(part)
    name, *rest = path
    if isinstance(part, tuple):
        return tuple(changed(each, rest, change) if i == name else each for i, each in enumerate(part))
    return replace(part, **{name: changed(getattr(part, name), rest, change)})


def test_no_change_of_a_weight_is_overlooked():
    """Every array of every layer, one entry: refused, or the bound is still above the error."""
    net = af.compile("tokens.mean(x)*q + tokens.mean(x^2)", {"x": (-1, 1), "q": (0, 1)}, 1e-6, tokens=100)
    rng, proved = np.random.default_rng(0), 0
    for path in arrays(net.network.layers):
        for size in (1e-3, 0.7):

            def change(array, size=size):
                found = array.copy()
                at = rng.integers(found.size)
                found.flat[at] += 1 if found.dtype.kind == "i" else size * max(1.0, abs(found.flat[at]))
                return found

            try:
                other = replace(net.network, layers=changed(net.network.layers, path, change))
                bound = certify_prompt_formula(other, net.target, "float64").bound
            except af.AttnforgeError:
                continue
            proved += 1
            for n in (1, 3, 20):
                assert largest_error(other, net.target, n) <= bound, path
    assert proved > 5


def test_no_change_of_rows_is_overlooked():
    net = af.compile("tokens.mean(x)*q", {"x": (-1, 1), "q": (0, 1)}, 1e-6, tokens=100)
    for i, layer in enumerate(net.network.layers):
        for j, head in enumerate(getattr(layer, "heads", ())):
            for field, rows in (("key_rows", Rows.some([0])), ("query_rows", Rows()), ("query_rows", Rows.some([1]))):
                if getattr(head, field) is None:
                    continue
                heads = tuple(replace(h, **{field: rows}) if k == j else h for k, h in enumerate(layer.heads))
                layers = (*net.network.layers[:i], replace(layer, heads=heads), *net.network.layers[i + 1 :])
                with pytest.raises(af.AttnforgeError):
                    certify_prompt_formula(replace(net.network, layers=layers), net.target, "float64")


def test_claims_are_not_believed():
    """Another formula, or none, for any head: refused, and not by accident."""
    net = af.compile("tokens.mean(x)*q + tokens.mean(x^2)", {"x": (-1, 1), "q": (0, 1)}, 1e-6, tokens=100)
    for i, layer in enumerate(net.network.layers):
        for j, head in enumerate(getattr(layer, "heads", ())):
            if head.claims is None:
                continue
            for formula in ("r[1]", "r[1]^3", "0"):
                said = replace(head, claims=replace(head.claims, formula=formula))
                heads = (*layer.heads[:j], said, *layer.heads[j + 1 :])
                layers = (*net.network.layers[:i], replace(layer, heads=heads), *net.network.layers[i + 1 :])
                with pytest.raises(af.AttnforgeError):
                    certify_prompt_formula(replace(net.network, layers=layers), net.target, "float64")
            silent = tuple(replace(each, claims=None) for each in layer.heads)
            layers = (*net.network.layers[:i], replace(layer, heads=silent), *net.network.layers[i + 1 :])
            try:
                found = certify_prompt_formula(replace(net.network, layers=layers), net.target, "float64")
            except af.AttnforgeError:
                continue
            assert found.bound >= net.certificate.estimate.error
