"""Native models of TransformerLens: hooks, caches and patches see the network's own heads, and labels name them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge import programs
from tests.export.running import script
from tests.refusals import refused

pytest.importorskip("transformer_lens")

FORMULA, BOX = "x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1))


@pytest.fixture(scope="module")
def net():
    return af.compile(FORMULA, BOX, 1e-2, construction="graph")


@pytest.fixture(scope="module")
def lens(net):
    return af.export.transformer_lens(net)


@pytest.fixture(scope="module")
def x():
    return torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, size=(16, 3)))


def test_values_are_those_of_the_network(net, lens, x):
    np.testing.assert_allclose(lens(x), net(x), rtol=0, atol=1e-14)
    assert lens(x.tolist()).dtype == torch.float64


def test_the_cache_holds_our_attention(net, lens, x):
    """Constant keys are slots, the token itself is the last position; all others get exactly nothing."""
    _, cache = lens.bridge.run_with_cache(lens.inputs(x))
    for block, layer in zip(lens.layout["blocks"], net.attention(x), strict=True):
        for i, weights in enumerate(layer):
            seen = cache["pattern", block][:, i, -1]
            head = net.network.heads[i if block == 0 else 2]
            ours = [1 + k for k in range(head.memory_size)] + [len(lens.positions) - 1] * (head.key_rows is not None)
            np.testing.assert_allclose(seen[:, ours].detach(), weights[:, 0], rtol=0, atol=1e-15)
            rest = [k for k in range(len(lens.positions)) if k not in ours]
            assert not seen[:, rest].any()


def test_the_stream_is_named(net, lens, x):
    """Registers stand where the names of the columns say, and hold what the trace does."""
    _, cache = lens.bridge.run_with_cache(lens.inputs(x))
    last = cache["resid_post", len(lens.layout["heads"]) - 1][:, -1].detach().numpy()
    for register in net.trace(x.numpy())[3:]:
        column = lens.layout["stream"].index(register.name)
        np.testing.assert_allclose(last[:, column], register.computed, rtol=0, atol=1e-14)
    assert [lens.layout["stream"].index(name) for name in "xyz"] == list(range(7, 10))


def test_heads_and_keys_are_named_by_their_labels(net, lens):
    labels = net.labels()
    for block, layer in zip(lens.layout["blocks"], labels.attention, strict=True):
        assert lens.layout["heads"][block] == [f"{head.name}: {head.formula}" for head in layer.heads]
    first = labels.heads[0]
    names = lens.names(0, 0)
    assert names[0] == "sink"
    assert names[1 : 1 + len(first.keys)] == [str(key) for key in first.keys]
    assert names[-1] == "token 0"


def test_a_patched_head_changes_what_its_formula_says(net, lens, x):
    """Head 0.0 writes r[4] = -z^2: with z taken from another input, the output is the formula's with that z."""
    heads = {head.formula: head for head in net.labels().heads}
    head = heads["-z^2"]
    place = f"blocks.{lens.layout['blocks'][head.layer]}.attn.hook_z"
    other = torch.flip(x, dims=[0])
    _, cache = lens.bridge.run_with_cache(lens.inputs(other))

    def patch(value, hook):
        value[:, :, head.head] = cache[hook.name][:, :, head.head]
        return value

    patched = lens.bridge.run_with_hooks(lens.inputs(x), fwd_hooks=[(place, patch)])[:, -1, 0].detach()
    predicted = x[:, 0] * x[:, 1] * torch.exp(-(other[:, 2] ** 2))
    clean = x[:, 0] * x[:, 1] * torch.exp(-(x[:, 2] ** 2))
    bound = net.certificate.bound
    assert (patched - predicted).abs().max() <= bound
    assert (clean - predicted).abs().max() > 10 * bound  # so that the prediction says something


def test_programs_take_token_ids():
    """A vocabulary embedding and a positional one: the model takes ids, of sequences up to the longest."""
    net = programs.compile(programs.library["sort"], max_length=6)
    lens = af.export.transformer_lens(net)
    for sequence in (list("hgab"), list("cabbac")):
        ids = lens.inputs([sequence])
        assert ids.dtype == torch.int64
        assert ids.shape == (1, len(lens.positions) - 6 + len(sequence))
        found = lens.bridge(ids)[0, lens.rows(len(sequence))].argmax(dim=-1)
        assert [net.vocabulary[i] for i in found] == sorted(sequence) == net(sequence)
    assert lens.layout["heads"][0][0].startswith("program: 1/(1 + ")
    with pytest.raises(ValueError, match="batch of sequences"):
        lens.inputs("abc")


def test_tokens_are_told_apart_by_type(tmp_path):
    """True and 1.0 are no 1, though a dictionary says so; and in a folder pairs are lists."""
    vocabulary = [1, "1", ("a", 1), frozenset("b"), None]
    net = programs.compile(programs.tokens, vocabulary, 3)
    lens = af.export.transformer_lens(net)
    af.export.transformer_lens(net, tmp_path / "folder")
    for each in (lens, script(tmp_path / "folder").load()):
        ids = each.inputs([[token] for token in [*vocabulary, np.int64(1)]])[:, -1]
        assert ids.tolist() == [1, 2, 3, 4, 5, 1]
        for other in (True, 1.0, np.True_, "None", ("a", True)):
            with pytest.raises(ValueError, match="of the vocabulary"):
                each.inputs([[1, other]])


def test_prompts_of_several_lengths():
    net = af.in_context.LeastSquares(steps=3, learning_rate=0.5).build(features=2)
    lens = af.export.transformer_lens(net, tokens=2 + 2 * 6)
    rng = np.random.default_rng(0)
    for examples in (1, 4, 6):
        data = rng.uniform(-1, 1, size=(examples, 2)), rng.uniform(-1, 1, size=examples)
        tokens = net.prompt(*data)
        found = lens(tokens[None])[0, 0, net.features.w]
        np.testing.assert_allclose(found, net(*data), rtol=0, atol=1e-12)  # sharpness 1/3000 takes three digits
    with pytest.raises(ValueError, match="a batch of 14 tokens"):
        lens.inputs(np.zeros((1, 15, net.network.features)))


def test_a_folder_runs_without_attnforge(net, x, tmp_path):
    """In a process that cannot import it."""
    assert af.export.transformer_lens(net, tmp_path / "lens") is None
    np.save(tmp_path / "x.npy", x.numpy())
    code = (
        "import sys; sys.modules['attnforge'] = None; sys.path.insert(0, 'lens')\n"
        "import numpy as np, model\n"
        "lens = model.load()\n"
        "print(lens(np.load('x.npy')).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), net(x), rtol=0, atol=1e-14)
    layout = json.loads((tmp_path / "lens/layout.json").read_text())
    assert layout["config"]["normalization_type"] is None


def test_a_changed_weight_changes_the_model(net, x):
    """The comparison can fail: one value of one constant key, moved by 1e-9."""
    lens = af.export.transformer_lens(net)
    with torch.no_grad():
        lens.bridge.blocks[0].attn.v.weight[0, 3] += 1e-9
    assert 1e-11 < float((lens(x) - torch.from_numpy(net(x.numpy()))).abs().max()) < 1e-8


GATE = af.constructions.gate([1.0], 0.0, -1, 1)
LABEL = frozenset("b")
REFUSED = {
    "any number of tokens": lambda net, to: to(GATE),
    "no tokens": lambda net, to: to(GATE, tokens=0),
    "more tokens than there are": lambda net, to: to(net, tokens=2),
    "a half type": lambda net, to: to(net, dtype="bfloat16"),
    "tokens of one text": lambda net, to: to(programs.compile(programs.tokens, [LABEL, repr(LABEL)], 3)),
    "too many positions": lambda net, to: to(
        af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=2000, sharpness="hard")
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(net, what):
    with refused(af.RefusalError):
        REFUSED[what](net, af.export.transformer_lens)


def test_a_folder_is_written_without_transformer_lens(net, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformer_lens", None)
    with pytest.raises(af.RefusalError, match=r"pip install 'attnforge\[lens\]'"):
        af.export.transformer_lens(net)
    af.export.transformer_lens(net, tmp_path / "written")
