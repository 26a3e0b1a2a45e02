"""Feed-forward networks of piecewise linear activations, as targets: weights read from a torch ``nn.Sequential``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.outward import Balls
from attnforge.targets.domain import Box
from attnforge.targets.target import AnyArray, Target, TruncatedForm, box_from_data, box_to_data

Array = npt.NDArray[np.float64]

PRESENT = {f"activation{a}{b}": (a == "+", b == "+") for a in "+-" for b in "+-"}  # which bounds there are
SUPPORTED = "Linear, ReLU, LeakyReLU, Hardtanh, ReLU6, Identity, Dropout and nn.Sequential of these"


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> x W + b, with W (m_in, m_out) and b (m_out,)."""

    weight: Array
    bias: Array

    def __call__(self, x: AnyArray) -> AnyArray:
        """Values, in the precision of x."""
        return np.asarray(x @ self.weight.astype(x.dtype) + self.bias.astype(x.dtype))


@dataclass(frozen=True)
class Activation:
    """slope * y + (1 - slope) * clamp(y, lower, upper), entry by entry; None is no bound.

    ReLU is lower = 0; LeakyReLU the same with its slope; Hardtanh and ReLU6 have both bounds and slope 0.
    """

    lower: float | None
    upper: float | None
    slope: float = 0.0

    def __call__(self, x: AnyArray) -> AnyArray:
        """Values, in the precision of x."""
        return np.asarray(self.slope * x + (1 - self.slope) * np.clip(x, self.lower, self.upper))


Stage = Affine | Activation


class ReluNetwork(Target):
    """A stack of affine maps and piecewise linear activations, applied to the last axis."""

    def __init__(self, stages: tuple[Stage, ...], domain: Box) -> None:
        self.stages = stages
        self.features, self.outputs = _widths(stages)
        self.layout: Literal["function", "tokens"] = "tokens" if len(domain.shape) == 2 else "function"
        self.domain = domain if domain.shape else domain.fixed((self.features,))
        if self.domain.shape[-1] != self.features:
            got = f"shape {self.domain.shape}"
            raise TargetError(f"The domain must have {self.features} features", got, "Give an interval an input")

    @classmethod
    def from_torch(cls, module: Any, domain: Box) -> ReluNetwork:
        """Read an ``nn.Sequential``; its weights are copied."""
        return cls(tuple(_read(module)), domain)

    def values(self, points: AnyArray) -> AnyArray:
        """Values (..., k) at (..., d) points."""
        for stage in self.stages:
            points = stage(points)
        return points

    def ranges(self) -> tuple[tuple[Array, Array], ...]:
        """Lower and upper bounds, feature by feature, of what enters each stage, by interval arithmetic.

        Tokens share the bounds: the smallest lower and the largest upper one.
        """
        return self._ranges

    @cached_property
    def _ranges(self) -> tuple[tuple[Array, Array], ...]:
        lower, upper = (np.atleast_2d(bound) for bound in (self.domain.lower, self.domain.upper))
        low, high, found = lower.min(axis=0), upper.max(axis=0), []
        for stage in self.stages:
            found.append((low, high))
            low, high = interval_stage(stage, low, high)
        return tuple(found)

    def truncated_form(self) -> TruncatedForm:
        """Refused: a whole network is not one truncated linear function."""
        raise TargetError("The target must be a truncated linear function", "a ReLU network", "Use relu_network")

    def on(self, domain: Box) -> ReluNetwork:
        """The same network on another box."""
        return ReluNetwork(self.stages, domain)

    def describe(self) -> str:
        """Its widths."""
        affine = [stage for stage in self.stages if isinstance(stage, Affine)]
        widths = "-".join(str(n) for n in [self.features, *(stage.weight.shape[1] for stage in affine)])
        return f"ReLU network {widths}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: weights as arrays, activations as an array of (kind, lower, upper, slope)."""
        arrays, kinds = box_to_data(self.domain), []
        for i, stage in enumerate(self.stages):
            if isinstance(stage, Affine):
                kinds.append("affine")
                arrays |= {f"stage{i}.weight": stage.weight, f"stage{i}.bias": stage.bias}
            else:
                bounds = (stage.lower, stage.upper)
                kinds.append("activation" + "".join("-" if bound is None else "+" for bound in bounds))
                arrays[f"stage{i}.numbers"] = np.array([*(bound or 0.0 for bound in bounds), stage.slope])
        return {"kind": "relu_network", "stages": kinds}, arrays

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> ReluNetwork:
        """From a file."""
        stages: list[Stage] = []
        for i, kind in enumerate(data["stages"]):
            if kind == "affine":
                stages.append(Affine(arrays[f"stage{i}.weight"], arrays[f"stage{i}.bias"]))
            else:
                *bounds, slope = (float(value) for value in arrays[f"stage{i}.numbers"])
                has = PRESENT[kind]
                lower, upper = (bound if there else None for bound, there in zip(bounds, has, strict=True))
                stages.append(Activation(lower, upper, slope))
        return cls(tuple(stages), box_from_data(arrays))


def interval_stage(stage: Stage, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds of what leaves a stage when [low, high] enters, rounded outward."""
    if isinstance(stage, Affine):
        out = (Balls.between(low, high)[None] @ Balls.exact(stage.weight))[0] + Balls.exact(stage.bias)
        return np.nextafter(out.mid - out.rad, -np.inf), np.nextafter(out.mid + out.rad, np.inf)
    ends = np.stack([stage(low), stage(high)])
    if stage.slope < 0:  # not monotone: add the values at the kinks
        kinks = [end for end in (stage.lower, stage.upper) if end is not None]
        ends = np.concatenate([ends, *(stage(np.clip(np.full_like(low, kink), low, high))[None] for kink in kinks)])
    terms = abs(stage.slope) * np.maximum(np.abs(low), np.abs(high)) + abs(1 - stage.slope) * np.abs(ends).max(axis=0)
    slack = 2.0**-50 * (terms if stage.slope else np.abs(ends).max(axis=0))
    return ends.min(axis=0) - slack, ends.max(axis=0) + slack


def is_torch_module(target: Any) -> bool:
    """Whether this is a ``torch.nn.Module``, without importing torch for everything else."""
    return any(cls.__module__.startswith("torch.nn") for cls in type(target).__mro__)


def is_relu_network(module: Any) -> bool:
    """Whether a module is a ``Sequential`` of the supported layers, or one of them."""
    from torch import nn

    layers = (nn.Linear, nn.LeakyReLU, nn.ReLU, nn.Hardtanh, nn.Identity, nn.Dropout)
    parts = module if isinstance(module, nn.Sequential) else ()
    return isinstance(module, (nn.Sequential, *layers)) and all(is_relu_network(part) for part in parts)


def _read(module: Any) -> list[Stage]:
    from torch import nn

    match module:
        case nn.Sequential():
            return [stage for part in module for stage in _read(part)]
        case nn.Linear():
            weight = _numbers(module.weight).T.copy()
            bias = getattr(module, "bias", None)
            bias = np.zeros(weight.shape[1]) if bias is None else _numbers(bias)
            return [Affine(weight, bias)]
        case nn.LeakyReLU():
            return [_leaky(float(module.negative_slope))]
        case nn.ReLU6():
            return [Activation(0.0, 6.0)]
        case nn.ReLU():
            return [Activation(0.0, None)]
        case nn.Hardtanh():
            return [_hardtanh(float(module.min_val), float(module.max_val))]
        case nn.Identity():
            return []
        case nn.Dropout():
            return _dropout(module)
    name = type(module).__name__
    raise TargetError(f"A network to be compiled is made of {SUPPORTED}", name, "Replace this layer, or remove it")


def _dropout(module: Any) -> list[Stage]:
    if module.training and module.p:
        raise TargetError("A network is compiled as it is evaluated", "dropout in training", "Call module.eval() first")
    return []


def _leaky(slope: float) -> Activation:
    if not np.isfinite(slope):
        raise TargetError("The slope of a LeakyReLU must be finite", repr(slope))
    return Activation(0.0, None, slope)


def _hardtanh(lower: float, upper: float) -> Activation:
    if not (np.isfinite(lower) and np.isfinite(upper) and lower < upper):
        raise TargetError("A Hardtanh needs min_val < max_val", f"[{lower}, {upper}]")
    return Activation(lower, upper)


def _numbers(parameter: Any) -> Array:
    array: Array = parameter.detach().to("cpu").double().numpy().copy()
    if not np.all(np.isfinite(array)):
        raise TargetError(
            "The weights of the network must be finite", "NaN or infinity", "Train it again, or repair it"
        )
    return array


def _widths(stages: tuple[Stage, ...]) -> tuple[int, int]:
    """Inputs and outputs, after checking that the widths fit."""
    affine = [stage for stage in stages if isinstance(stage, Affine)]
    if not affine:
        raise TargetError("A ReLU network has at least one Linear layer", "none", "Add one")
    shapes = [(*stage.weight.shape, *stage.bias.shape) for stage in affine]
    if any(len(shape) != 3 or 0 in shape or shape[1] != shape[2] for shape in shapes):
        got = f"weights and biases of shapes {shapes}"[:200]
        raise TargetError("Linear layers have inputs, outputs and a bias of each output", got, "Mend this layer")
    for before, after in itertools.pairwise(affine):
        if before.weight.shape[1] != after.weight.shape[0]:
            got = f"{before.weight.shape[1]} outputs into {after.weight.shape[0]} inputs"
            raise TargetError("Consecutive Linear layers must fit", got, "Mend the widths")
    return affine[0].weight.shape[0], affine[-1].weight.shape[1]
