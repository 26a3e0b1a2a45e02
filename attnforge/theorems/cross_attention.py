r"""One head of cross-attention: keys and values from X, queries from Y, the target f(X, Y) (after Liu et al. 2025).

The joint point $z = (\mathrm{vec} X ; \mathrm{vec} Y)$ lives in a box of dim X + dim Y axes, divided into a product
grid of cells with centres $v_j = (v^X_j ; v^Y_j)$. The scores of :mod:`.max_affine`,
$2\langle v_j, z\rangle - |v_j|^2$, split into a part that X knows and one that X and Y make together:
$$ K_j = (2\langle v^X_j, X\rangle - |v_j|^2 \;;\; 2 v^Y_j), \quad Q = (1 \;;\; \mathrm{vec} Y), \quad V_j = f(v_j),
   \qquad Q \cdot K_j = 2\langle v_j, z\rangle - |v_j|^2 . $$
So $-\beta|z - v_j|^2$ up to a term common to all keys, and everything said of max_affine holds in dim X + dim Y:
$$ |\mathrm{head}(X, Y) - f(X, Y)| \le L\,(\max_j h_j/2 + \textstyle\sum_j h_j X(c)) , $$
order 1 hard, order 2 tuned with ghosts by odd reflection for smooth f; :mod:`attnforge.lemmas.cells`.

The keys are made from X by linear maps on the second input. The first counts X in steps from the grid's middle,
$U = X/h - o/h$. The second lengthens the sequence from X's tokens to one token a key: its term for feature f of X mixes
tokens by $2\kappa^X_{j,(i,f)}$, so that row j becomes $2\langle\kappa^X_j, U\rangle$, and its constant holds
$-|\kappa_j|^2$, $2\kappa^Y_j$ and $f(v_j)$. Places $\kappa$ are small integers: exact in every dtype.

Where Y is a sequence of n tokens the output has its tokens: keys are (cell j, token i), as in max_affine, with a bonus
M for the query's own i.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.anchors.cells import reflected_values
from attnforge.anchors.product_grid import ProductGrid
from attnforge.anchors.temperature import position_bonus
from attnforge.errors import RefusalError
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term
from attnforge.targets import Box, Formula, Function, JointFunction, Lipschitz, Target
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, encode_inputs, flat_values

Array = npt.NDArray[np.float64]


def _product() -> JointFunction:
    """X y on the square."""
    box = Box(0, 1, shape=(1,))
    return JointFunction(lambda x, y: x[..., 0] * y[..., 0], box, box, lipschitz=Lipschitz(2.0))


class CrossAttention(Construction[CellsPlan]):
    """One head over the cells of a product grid of the joint box; sizes and bounds are max_affine's."""

    name = "cross_attention"
    function_class = "continuous functions f(X, Y) of two inputs"
    rate = "O(1/G) hard, O(1/G^2) tuned for smooth targets"
    conditions = "G cells along each axis of the joint box, so G^(dim X + dim Y) keys; order 2 as measured"
    reference = "Liu et al. 2025, cross-attention"
    documentation = Documentation(
        theorem="paper B, cross-attention",
        hypotheses="f Lipschitz with constant L in the sup norm of (X, Y), as given",
        bound="sup norm in and out: L (max h_j/2 + sum_j h_j X(c))",
        heads="1",
        keys="n G^(dim X + dim Y)",
        width="1 + n d_y, and n if n > 1",
        example=(
            "af.constructions.cross_attention("
            'lambda x, y: x * y, [(0, 1)], [(0, 1)], grid=12, sharpness="hard", lipschitz=2)'
        ),
    )
    law = Law(
        target=_product,
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(0.4, 0.1),
        order=0.5,
    )

    def accepts(self, target: Target) -> str | None:
        """Functions of two inputs."""
        return None if isinstance(target, JointFunction) else "the target is not a function of two inputs"

    def size(self, target: Target, tol: float, dtype: str) -> CellsPlan:
        """The coarsest grid of cubes whose hard bound is at most tol."""
        return MaxAffine().size(target, tol, dtype)

    def cost(self, target: Target, plan: CellsPlan) -> Cost:
        """A row of the lengthened X for every cell and token."""
        joint = _joint(target)
        (tokens, d_x), (n, d_y, k) = _key_shape(joint), _query_shape(joint)
        bonus = n if n > 1 else 0
        r, keys = 1 + n * d_y + bonus, plan.total * n
        context = tokens * d_x * (d_x + 1) + d_x * (d_x * (r + k) + keys * tokens) + keys * (r + k)
        queries = n * (d_y * r + n * bonus) + n * r
        return Cost.of(keys, context + queries + r * r + (r + k) * (r + k) + k * k)

    def build(self, target: Target, plan: CellsPlan) -> Network:
        """The weights: the grid's places as keys, f at the centres as values."""
        joint = _joint(target)
        lower, upper = joint.domain.lower, joint.domain.upper
        return self.network(joint, plan, reflected_values(flat_values(joint), lower, upper, plan.counts, plan.ghosts))

    def network(self, target: Target, plan: CellsPlan, values: Array) -> Network:
        """The weights for given values (N, K) of the cells."""
        joint = _joint(target)
        n, d_y, k = _query_shape(joint)
        grid = ProductGrid(joint.domain.lower, joint.domain.upper, plan.counts, plan.ghosts)
        first, scale, shift = int(np.prod(joint.keys.shape)), 1 / grid.steps, -grid.origin / grid.steps
        query_side = Function(None, joint.query, outputs=joint.outputs)
        counted = count_in_steps(_key_shape(joint), scale[:first], shift[:first])
        keys = lengthen(_key_shape(joint), grid.places, values.reshape(-1, n, k))
        roles = tuple("cell" if inside else "ghost" for inside in grid.inside)
        claims = Claims(self.name, plan.sharpness, np.tile(grid.positions, (n, 1)), roles * n)
        head = cross_head(n, n * d_y, k, plan.sharpness, position_bonus(n, plan.dtype), claims)
        layers = (encode_inputs(query_side, scale[first:], shift[first:]), Attention((head,)))
        return Network(layers, d_y, n, _key_shape(joint), self.name, (counted, keys))

    def bound(self, target: Target, plan: CellsPlan) -> dict[str, float]:
        """``spacing``: half a cell; ``leakage``: further cells, and other tokens."""
        return MaxAffine().bound(target, plan)


def count_in_steps(shape: tuple[int, int], scale: Array, shift: Array) -> Linear:
    """X of the given shape becomes scale * X + shift, entry by entry."""
    tokens, d = shape
    maps = scale.reshape(tokens, d, 1) * np.eye(d)
    return Linear((Term(maps if tokens > 1 else maps[0]),), shift.reshape(tokens, d))


def lengthen(shape: tuple[int, int], places: Array, values: Array) -> Linear:
    """U becomes n blocks of N rows (2<kappa^X, U> - |kappa|^2 ; 2 kappa^Y ; e_i ; V), for values (N, n, k)."""
    (tokens, d), (cells, n, k) = shape, values.shape
    of_x, of_y = places[:, : tokens * d], places[:, tokens * d :]
    bonus = n if n > 1 else 0
    width = 1 + of_y.shape[1] + bonus + k
    mixes = np.tile(2 * of_x, (n, 1)).reshape(n * cells, tokens, d)
    maps = np.zeros((d, d, width))
    maps[np.arange(d), np.arange(d), 0] = 1.0  # map f takes feature f of U to the score
    terms = [Term(maps[f], mixes[:, :, f]) for f in range(d)]
    constant = np.zeros((n, cells, width))
    constant[:, :, 0] = -(places**2).sum(axis=1)
    constant[:, :, 1 : 1 + of_y.shape[1]] = 2 * of_y
    if bonus:
        constant[:, :, 1 + of_y.shape[1] : width - k] = np.eye(n)[:, None]
    constant[:, :, width - k :] = np.moveaxis(values, 1, 0)
    return Linear(tuple(terms), constant.reshape(n * cells, width))


def cross_head(n: int, inputs: int, k: int, c: float, bonus: float, claims: Claims) -> Head:
    """Queries (c ; c u ; M e_i) from tokens (u ; 1 ; e_i), keys and values from the rows of :func:`lengthen`."""
    r = 1 + inputs + (n if n > 1 else 0)
    query = np.zeros((r, r))
    query[inputs, 0] = c
    query[np.arange(inputs), 1 + np.arange(inputs)] = c
    if n > 1:
        query[1 + inputs :, 1 + inputs :] = bonus * np.eye(n)
    read = np.eye(r + k)
    return Head(
        query,
        np.eye(k),
        key=read[:, :r],
        value=read[:, r:],
        key_rows=Rows(source="context"),
        claims=claims,
    )


def _joint(target: Target) -> JointFunction:
    if not isinstance(target, JointFunction):
        raise RefusalError("The target must be a function of two inputs", target.describe(), "Write f(X, Y)")
    flat = target.domain.lower >= target.domain.upper
    if flat.any():
        got = f"length 0 at entry {int(flat.argmax())} of (X, Y)"
        raise RefusalError("Every axis of the domain must have a length", got, "Leave that input out")
    return target


def _key_shape(target: JointFunction) -> tuple[int, int]:
    """Tokens (1 for functions) and features of X."""
    shape = target.keys.shape
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])


def _query_shape(target: JointFunction) -> tuple[int, int, int]:
    """Tokens n (1 for functions) and features of Y, outputs k a token."""
    shape = target.query.shape
    n, d = (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])
    return n, d, target.outputs or 1
