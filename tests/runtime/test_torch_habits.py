"""What people of torch do with a module, done with one of every kind: casts, devices, states, transforms, copies."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

import attnforge as af
from tests.refusals import refused
from tests.runtime.kinds import KINDS, given, kind

CASTS = {
    torch.float32: lambda module: module.float(),
    torch.float16: lambda module: module.half(),
    torch.bfloat16: lambda module: module.bfloat16(),
}
# weights that float16 does not have, as gates so sharp that float64 cannot tell them from steps
TOO_LARGE = {"gate", "graph", "relu"}


@pytest.mark.parametrize("dtype", CASTS, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_casts_give_the_module_that_is_made_in_that_dtype(name, dtype):
    if dtype == torch.float16 and name in TOO_LARGE:
        module = kind(name).module()
        before = {key: value.clone() for key, value in module.state_dict().items()}
        with refused(af.RefusalError):
            CASTS[dtype](module)
        assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
        return
    x = given(name, 4)
    made = kind(name).module(dtype=dtype)(*x)
    assert made.dtype == dtype
    for cast in (CASTS[dtype], lambda module: module.to(dtype)):
        assert torch.equal(cast(kind(name).module())(*x), made)


@pytest.mark.parametrize("name", KINDS)
def test_on_another_device_shapes_are_known_without_numbers(name):
    wanted = kind(name).module()(*given(name, 4))
    for module in (kind(name).module().to("meta"), kind(name).module(device="meta")):
        found = module(*(x.to("meta") for x in given(name, 4)))
        assert found.is_meta
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_a_state_dict_goes_through_a_file_into_another_module(name, trainable):
    source, goal = (kind(name).module(trainable=trainable) for _ in range(2))
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    if name != "window" or trainable:  # keys of a window are fixed when it is made
        with torch.no_grad():
            for weight in goal.state_dict().values():
                if weight.is_floating_point():
                    weight.zero_()
    goal.load_state_dict(torch.load(file, weights_only=True), strict=True)
    with torch.no_grad():
        assert torch.equal(goal(*given(name, 4)), source(*given(name, 4)))
    with pytest.raises(RuntimeError, match="Unexpected key"):
        goal.load_state_dict(source.state_dict() | {"another": torch.zeros(1)}, strict=True)
    missing = dict(list(source.state_dict().items())[1:])
    with pytest.raises(RuntimeError, match="Missing key"):
        goal.load_state_dict(missing, strict=True)


@pytest.mark.parametrize("name", KINDS)
def test_it_is_exported_with_any_batch(name):
    module, batch = kind(name).module(), torch.export.Dim("batch", min=2, max=1000)
    few, more = given(name, 3), given(name, 7)
    program = torch.export.export(module, few, dynamic_shapes=tuple({0: batch} for _ in few))
    torch.testing.assert_close(program.module()(*more), module(*more), rtol=0, atol=1e-12)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_copies_and_pickles_are_modules_of_their_own(name, trainable):
    module, x = kind(name).module(trainable=trainable), given(name, 4)
    wanted = module(*x)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(*x), wanted)
        mine = {value.data_ptr() for value in module.state_dict().values() if value.numel()}
        assert not mine & {value.data_ptr() for value in twin.state_dict().values() if value.numel()}


def test_modules_go_to_processes_that_were_spawned():
    """One process, which imports everything anew, runs a module of every kind."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name in KINDS:
            module, x = kind(name).module(), given(name, 4)
            assert torch.equal(pool.submit(module, *x).result(timeout=120), module(*x))


def test_a_network_of_a_lambda_is_not_pickled_and_its_module_is():
    net = af.compile(lambda x: x * x, [(0.0, 1.0)], 0.1)
    with refused(af.TargetError):
        pickle.dumps(net)
    twin = pickle.loads(pickle.dumps(net.module()))
    x = torch.linspace(0, 1, 5, dtype=torch.float64)
    assert torch.equal(twin(x), net.module()(x))
    assert copy.deepcopy(net) is net  # what was certified does not change
