"""The ways in which torch may be made to run a module: what each gives on the inputs of a network of a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, func, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.laws.run_subjects import Inputs, Subject

Given = tuple[Subject, Tensor]  # a network at some inputs, and what it gave there
Mode = Callable[[Subject, nn.Module], Iterator[Given]]

Run = Callable[..., Any]

FEW, LOOPED = 20, 2**18  # inputs of what takes long, and of a compiled loop
BACKENDS = {
    "math": [SDPBackend.MATH],
    "flash": [SDPBackend.FLASH_ATTENTION],
    "flash, else math": [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
}


def at_all(run: Callable[..., Tensor]) -> Mode:
    """At all inputs, by a function of the module and of them."""

    def mode(subject: Subject, module: nn.Module) -> Iterator[Given]:
        yield subject, run(module, *subject.inputs)

    return mode


def at_few(run: Callable[..., Tensor], count: int = FEW) -> Mode:
    """At some of the inputs."""

    def mode(subject: Subject, module: nn.Module) -> Iterator[Given]:
        some = subject.some(torch.arange(min(count, len(subject.inputs[0]))))
        yield some, run(module, *some.inputs)

    return mode


def inside(around: Callable[[], AbstractContextManager[Any]]) -> Mode:
    """At all inputs, inside a context."""

    def run(module: Run, *inputs: Tensor) -> Tensor:
        with around():
            return module(*inputs)

    return at_all(run)


@contextmanager
def setting(change: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    """A setting of the process, for a while."""
    change(value)
    try:
        yield
    finally:
        change(before)


def _ones(inputs: Inputs) -> Inputs:
    return tuple(torch.ones_like(each) for each in inputs)


def _jvp(module: Run, *inputs: Tensor) -> Tensor:
    return func.jvp(module, inputs, _ones(inputs))[0]


def _dual_weights(module: Run, *inputs: Tensor) -> Tensor:
    """Along a change of the weights alone."""
    weights = {name: each for name, each in module.state_dict().items() if each.is_floating_point()}
    changes = {name: torch.zeros_like(each) for name, each in weights.items()}
    return func.jvp(lambda given: func.functional_call(module, given, inputs), (weights,), (changes,))[0]


def _vjp(module: Run, *inputs: Tensor) -> Tensor:
    found, back = func.vjp(module, *inputs)
    back(torch.ones_like(found))
    return found


def _backward(module: Run, *inputs: Tensor) -> Tensor:
    leaves = tuple(each.clone().requires_grad_() for each in inputs)
    found = module(*leaves)
    found.sum().backward()
    return found


def _forward_of_backward(module: Run, *inputs: Tensor) -> Tensor:
    """The value inside a derivative along a direction of a gradient."""

    def gradient(*given: Tensor) -> tuple[Tensor, Tensor]:
        found, back = func.vjp(module, *given)
        return back(torch.ones_like(found))[0], found

    return func.jvp(gradient, inputs, _ones(inputs), has_aux=True)[2]


def _singly(inputs: Inputs) -> Inputs:
    """Each input a batch of one."""
    return tuple(each.unsqueeze(1) for each in inputs)


def _vmap(module: Run, *inputs: Tensor) -> Tensor:
    return func.vmap(module)(*_singly(inputs))


def _vmap_of_jvp(module: Run, *inputs: Tensor) -> Tensor:
    return func.vmap(lambda *given: func.jvp(module, given, _ones(given))[0])(*_singly(inputs))


def _jvp_of_vmap(module: Run, *inputs: Tensor) -> Tensor:
    return func.jvp(func.vmap(module), _singly(inputs), _ones(_singly(inputs)))[0]


def _jacfwd(module: Run, *inputs: Tensor) -> Tensor:
    def value(x: Tensor) -> tuple[Tensor, Tensor]:
        found = module(x, *inputs[1:])
        return found, found

    return func.jacfwd(value, has_aux=True)(inputs[0])[1]


def _inference(module: Run, *inputs: Tensor) -> Tensor:
    with torch.inference_mode():
        return module(*(each.clone() for each in inputs))


def _made_in_inference(subject: Subject, _module: nn.Module) -> Iterator[Given]:
    with torch.inference_mode():
        yield subject, subject.make()(*subject.inputs)


def _trainable(subject: Subject, _module: nn.Module) -> Iterator[Given]:
    if not subject.trains:
        return
    found = subject.make(trainable=True)(*subject.inputs)
    found.sum().backward()
    yield subject, found


def _hooked(subject: Subject, _module: nn.Module) -> Iterator[Given]:
    """With a hook at every point."""
    made = subject.make()
    points = [part for name, part in made.named_modules() if ".hook_" in f".{name}"]
    for point in points:
        point.register_forward_hook(lambda _part, _given, value: value.clone())
    yield subject, made(*subject.inputs)


def _loops(subject: Subject, module: nn.Module) -> Iterator[Given]:
    """So many inputs that loops of numba take them."""
    count = len(subject.inputs[0])
    some = subject.some(torch.arange(LOOPED) % count)
    yield some, module(*some.inputs)


def _autocast(dtype: torch.dtype, run: Callable[..., Tensor]) -> Mode:
    """The module alone is called under autocast, as torch asks for: derivatives are taken outside."""

    def mode(module: Run, *inputs: Tensor) -> Tensor:
        def cast(*given: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=dtype):
                return module(*given)  # type: ignore[no-any-return]

        return run(cast, *inputs)

    return at_all(mode)


def _called(module: Run, *inputs: Tensor) -> Tensor:
    found: Tensor = module(*inputs)
    return found


def _traced(module: Run, *inputs: Tensor) -> Tensor:
    found: Tensor = torch.jit.trace(module, inputs, check_trace=False)(*inputs)
    return found


def _compiled(backend: str) -> Mode:
    def run(module: Run, *inputs: Tensor) -> Tensor:
        torch._dynamo.reset()
        found: Tensor = torch.compile(module, backend=backend)(*inputs)
        return found

    return at_all(run)


def _half_attention_compiled(module: Run, *inputs: Tensor) -> Tensor:
    torch._dynamo.reset()
    return _half_attention(torch.compile(module, backend="aot_eager", fullgraph=True), *inputs)


def _deterministic() -> AbstractContextManager[None]:
    return setting(torch.use_deterministic_algorithms, True, False)


def _flushed() -> AbstractContextManager[None]:
    return setting(torch.set_flush_denormal, True, False)


def _half_products() -> AbstractContextManager[None]:
    return setting(torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp, True, False)


def _half_attention(module: Run, *inputs: Tensor) -> Tensor:
    with _half_products(), sdpa_kernel(BACKENDS["math"]):
        return module(*inputs)


def _float32_products(precision: str) -> Callable[[], AbstractContextManager[None]]:
    return lambda: setting(torch.set_float32_matmul_precision, precision, "highest")


def _default(dtype: torch.dtype) -> Callable[[], AbstractContextManager[None]]:
    return lambda: setting(torch.set_default_dtype, dtype, torch.float32)


MODES: dict[str, Mode] = {
    "plain": at_all(_called), "no grad": inside(torch.no_grad), "inference": at_all(_inference),
    "made in inference": _made_in_inference, "trainable": _trainable, "jvp": at_all(_jvp),
    "jvp by the weights": at_all(_dual_weights), "vjp": at_all(_vjp), "backward": at_all(_backward),
    "jvp of vjp": at_few(_forward_of_backward), "vmap": at_few(_vmap), "vmap of jvp": at_few(_vmap_of_jvp),
    "jvp of vmap": at_few(_jvp_of_vmap), "jacfwd": at_few(_jacfwd, 2), "hooks": _hooked,
    "autocast to bfloat16": _autocast(torch.bfloat16, _called),
    "autocast to float16": _autocast(torch.float16, _called), "autocast of jvp": _autocast(torch.bfloat16, _jvp),
    "autocast of backward": _autocast(torch.bfloat16, _backward),
    **{f"attention by {name}": inside(lambda kind=kind: sdpa_kernel(kind)) for name, kind in BACKENDS.items()},
    "attention by math in half types": at_all(_half_attention), "flushed": inside(_flushed),
    "deterministic": inside(_deterministic),
    **{f"products {name}": inside(_float32_products(name)) for name in ("high", "medium")},
    **{f"default {dtype}": inside(_default(dtype)) for dtype in (torch.float64, torch.float16, torch.bfloat16)},
}  # fmt: skip
REDUCED = ("products high", "products medium")  # of which a module in float32 warns
GRAPHS: dict[str, Mode] = {
    "traced": at_few(_traced),
    **{f"compiled by {backend}": _compiled(backend) for backend in ("eager", "aot_eager", "inductor")},
}
GRAPHS["attention by math in half types, compiled"] = at_few(_half_attention_compiled)
LOOPS: dict[str, Mode] = {"loops": _loops}
