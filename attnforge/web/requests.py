"""What may be asked: every field of every request with its type and its limits. What is not listed is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from attnforge.web import limits

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,15}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=limits.TEXT)]
Number = Annotated[float, Field(ge=-limits.REACH, le=limits.REACH)]
Interval = tuple[Number, Number]
DType = Literal["float64", "float32", "bfloat16", "float16"]
Regime = Literal["hard", "tuned", "tolerance"]
Sharpness = Annotated[float, Field(ge=limits.SHARPNESS[0], le=limits.SHARPNESS[1])]
Tolerance = Annotated[float, Field(ge=limits.TOLERANCES[0], le=limits.TOLERANCES[1])]
Construction = Literal["max_affine", "tensor_grid", "truncated_linear", "multihead_truncated_linear", "gate", "compile"]
Algorithm = Literal["LeastSquares", "Ridge", "Lasso", "Huber", "Logistic"]
Fault = Literal["none", "missing ghosts", "too soft", "float16", "shifted sentinel"]


class Strict(BaseModel):
    """Nothing but the fields listed, no NaN and no infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Formula(Strict):
    """A formula on a box."""

    function: Text
    domain: dict[Name, Interval] = Field(min_length=1, max_length=limits.INPUTS)
    dtype: DType = "float64"
    tol: Tolerance = 1e-6

    @model_validator(mode="after")
    def _is_a_box(self) -> Formula:
        for name, (lower, upper) in self.domain.items():
            if not lower < upper:
                raise ValueError(f"the domain of {name} must have lower < upper; got {lower:g} and {upper:g}")
        return self


class Network(Formula):
    """A formula of one input, and a construction with its numbers; ``sharpness`` is a regime, or c = beta h^2."""

    kind: Literal["line"] = "line"
    construction: Construction = "max_affine"
    p: int = Field(default=33, ge=2, le=limits.ANCHORS)
    heads: int = Field(default=4, ge=1, le=limits.HEADS)
    sentinels: int = Field(default=2, ge=1, le=limits.SENTINELS)
    sharpness: Regime | Sharpness = "tuned"

    @model_validator(mode="after")
    def _has_one_input(self) -> Network:
        if len(self.domain) != 1:
            raise ValueError(f"this view has one input; got {len(self.domain)}")
        return self


class Plane(Formula):
    """A formula of two inputs, divided into cells or fitted on a grid."""

    kind: Literal["plane"] = "plane"
    construction: Literal["max_affine", "tensor_grid"] = "max_affine"
    p: int = Field(default=8, ge=2, le=limits.GRID)
    sharpness: Regime | Sharpness = "hard"

    @model_validator(mode="after")
    def _has_two_inputs(self) -> Plane:
        if len(self.domain) != 2:
            raise ValueError(f"this view has two inputs; got {len(self.domain)}")
        return self


class Graph(Formula):
    """A formula, one head a node."""

    kind: Literal["graph"] = "graph"


class Model(Strict):
    """The network of a view, whose ``kind`` says which."""

    of: Network | Plane | Graph = Field(discriminator="kind")


class Examples(Strict):
    """A prompt: points of a line (x, y), or of the plane with labels 0 and 1; and the algorithm that reads it."""

    algorithm: Algorithm = "LeastSquares"
    x: list[tuple[Number, ...]] = Field(min_length=2, max_length=limits.EXAMPLES)
    y: list[Number] = Field(min_length=2, max_length=limits.EXAMPLES)
    steps: int = Field(default=20, ge=1, le=limits.STEPS)
    learning_rate: float = Field(default=0.5, gt=0, le=100.0)
    alpha: float = Field(default=0.1, ge=0, le=100.0)

    @model_validator(mode="after")
    def _belongs_together(self) -> Examples:
        width = 2 if self.algorithm == "Logistic" else 1
        if len(self.x) != len(self.y) or any(len(point) != width for point in self.x):
            raise ValueError(f"{self.algorithm} takes as many y as x, each x of {width} numbers")
        return self


class Sequence(Strict):
    """A program of the library, and the tokens it runs on."""

    program: Annotated[str, StringConstraints(max_length=40)]
    tokens: list[Annotated[str, StringConstraints(max_length=20)]] = Field(min_length=1, max_length=limits.TOKENS)


class Patient(Network):
    """A network with a fault switched on."""

    fault: Fault = "none"
