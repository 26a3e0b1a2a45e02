"""Windows over even rows of keys: what is left out weighs no more than is said, and rows are read from the numbers."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Attention, Head, Linear, Network, Rows, Term, apply_layer, layers_in, moved, rounded
from tests.catalogue import network as built
from tests.refusals import refused
from tests.runtime.kinds import module_of

pytestmark = pytest.mark.filterwarnings("ignore:the certificate covers")  # or nothing: these compare runs
SIZES = {"one row": (500,), "two": (60, 71), "three": (30, 25, 28)}


def row_network(sizes, c=0.7, seed=0, scale=1.0, outputs=2):
    """Values over a product of rows of keys, in any order, that tokens (x ; 1) ask for places of."""
    rng, d = np.random.default_rng(seed), len(sizes)
    places = np.indices(sizes).reshape(d, -1)[:, rng.permutation(int(np.prod(sizes)))]
    at = [scale * (places[j] - n // 3) for j, n in enumerate(sizes)]
    keys = np.column_stack([part for k in at for part in (k, k**2 / scale)])
    query = np.zeros((d + 1, 2 * d))
    for j, n in enumerate(sizes):
        query[j, 2 * j], query[d, 2 * j], query[d, 2 * j + 1] = c * n / scale, c * (n / 3 - 1) / scale, -c / scale
    encode = Linear((Term(np.eye(d, d + 1)),), np.eye(1, d + 1, d))
    values = rng.normal(size=(len(keys), 2))
    head = Head(query, rng.normal(size=(2, outputs)), Rows(), memory_keys=keys, memory_values=values)
    return Network((encode, Attention((head,))), d, None)


def runs(sizes, batch=80, reach=0.55, **options):
    network = row_network(sizes, outputs=1, **options)
    x = torch.from_numpy(np.random.default_rng(1).uniform(-reach, reach, size=(batch, 3, network.features)))
    return x, module_of(network, "window"), module_of(network, "dense")


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_is_dense_attention_but_for_the_tail(sizes, window_version):
    """Far beyond the rows' ends, too."""
    for reach in (0.55, 3.0):
        x, window, dense = runs(sizes, reach=reach, scale=1.0 if window_version == "compiled" else 0.3)
        torch.testing.assert_close(window(x), dense(x), rtol=0, atol=3e-11)
        torch.testing.assert_close(window.attention(x), dense.attention(x), rtol=0, atol=1e-11)


def test_it_is_differentiable():
    x, window, dense = runs((60, 71), batch=5)
    slopes = []
    for module in (window, dense):
        given = x.clone().requires_grad_()
        module(given).sin().sum().backward()
        slopes.append(given.grad)
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-8)


def test_float32_sees_places_that_dense_attention_loses(window_version):
    """Of 16,384 keys, products of queries and keys in float32 find another one for many queries."""
    rng, n = np.random.default_rng(0), 2**14
    k = np.arange(n) - n // 2.0
    query, high = np.array([[n, 0.0, 0.0], [0.0, -1.0, -1.0]]), (k**2).astype(np.float32).astype(np.float64)
    keys = np.column_stack([k, high, k**2 - high])  # offsets in two numbers that float32 holds
    head = Head(query, np.eye(1), memory_keys=keys, memory_values=np.sin(8 * k / n)[:, None])
    network = Network((Linear((Term(np.eye(1, 2)),), np.eye(1, 2, 1)), Attention((head,))), 1, 1)
    x = torch.from_numpy(rng.uniform(-0.9, 0.9, size=(2000, 1, 1))).float()
    exact = module_of(network, "dense")(x.double())
    window, dense = (module_of(network, kernel, dtype="float32")(x) for kernel in ("window", "dense"))
    assert float((window - exact).abs().max()) < 1e-6 < 1e-5 < float((dense - exact).abs().max())


def test_what_is_no_number_stays_none(window_version):
    x, window, _ = runs((60, 71), batch=2)
    x[0, 1, 0] = torch.nan
    assert window(x).isnan().tolist() == [[False, True, False], [False, False, False]]


def exactly(network, x):
    """In extended precision."""
    state = x.astype(np.longdouble)
    for layer in layers_in(network, np.longdouble):
        state = apply_layer(layer, state)
    return state[..., 0]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_windows_are_within_what_is_charged_for_their_rounding(seed, dtype):
    """Rows of any length, sharpness and place; inside of them, at their ends and beyond."""
    rng = np.random.default_rng(seed)
    w, t, p = float(rng.uniform(0.1, 3)), float(rng.normal()), int(rng.integers(3, 2000 if dtype == "float64" else 400))
    sharpness = "tuned" if seed % 2 else float(rng.uniform(0.3, 3)) * (p / 3) ** 2
    box = af.Box(-float(rng.uniform(1, 4)), float(rng.uniform(1, 4)))
    net = af.constructions.truncated_linear([w], t, -1, 2, anchors=p, sharpness=sharpness, domain=box, dtype=dtype)
    charged = af.certify(net, kernel="window").parts["rounding"]
    x = rng.uniform(box.lower, box.upper, size=(300, 1, 1)).astype(dtype)
    found = net.module(kernel="window")(torch.from_numpy(x)).double().numpy()
    assert np.abs(found - exactly(rounded(net.network, dtype), x)).max() <= charged


def edited(keys, change):
    if change == "a key":
        keys[17, 0] += 0.02
    else:
        keys[:, 1] *= -1
    return keys


@pytest.mark.parametrize("change", ["a key", "an offset that bends the other way", "offsets that vary"])
def test_other_keys_are_no_rows(change):
    network = row_network((500,), outputs=1)
    if change == "offsets that vary":
        other = moved(network, "layer1.head0.query", lambda query: query + 1e-3 * np.eye(2, 2, 1))
    else:
        other = moved(network, "layer1.head0.memory_keys", lambda keys: edited(keys, change))
    with refused(af.RefusalError):
        module_of(other, "window")


def test_it_is_chosen_for_many_keys_in_float64():
    net = built("truncated, window")
    assert "window" in net.certificate.kernels
    x = torch.from_numpy(np.random.default_rng(0).uniform(-2, 3, size=(500, 4, 1)))
    assert torch.equal(net.module()(x), net.module(kernel="window")(x))
    assert not torch.equal(net.module()(x), net.module(kernel="dense")(x))
    assert np.abs(net(x.numpy()) - net.target.values(x.numpy())).max() <= net.certificate.bound
    assert torch.equal(net.module(dtype="float32")(x), net.module(dtype="float32", kernel="dense")(x))
    assert af.diagnose(net.module(), x[:4]).healthy


def test_what_a_certificate_does_not_cover_is_warned_of_or_refused():
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=50)
    with pytest.warns(UserWarning, match="covers dense, batched, not window"):
        net.module(kernel="window")
    with refused(af.RefusalError):
        net.module(dtype="bfloat16", kernel="window")
