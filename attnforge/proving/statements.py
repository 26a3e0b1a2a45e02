"""What the public targets say, as statements of the kernel: which outputs are compared with which formulas.

It is short, to be read: a theorem is about the statement that is made here, and about nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from attnforge.errors import CertificateError
from attnforge.expression.simplify import of, plus, times
from attnforge.expression.tree import Constant, Variable
from attnforge.kernel.theorem import Domain, Formulas, Output, Run, Statement
from attnforge.network import Network
from attnforge.targets import Box, Formula, Target, TruncatedLinear
from attnforge.targets import Formulas as SeveralFormulas


def statement_of(network: Network, dtype: str, target: Target, domain: Box) -> Statement:
    """Every output of the network in the dtype is near the target on the box; one shape of inputs stands for all."""
    tokens = tokens_of(network, target)
    box = domain.fixed((tokens, network.features))
    return Statement(Run(network, dtype), Formulas(tuple(outputs_of(target, tokens))), Domain(box.lower, box.upper))


def tokens_of(network: Network, target: Target) -> int:
    """How many tokens are looked at; one stands for any number of tokens that read none but themselves."""
    rows = target.rows if isinstance(target, TruncatedLinear) else 1
    if network.tokens is None and not isinstance(target, Formula):  # functions are given one token
        for head in network.heads:
            if head.query_rows.indices is not None or (head.key_rows is not None and head.key_rows.kind != "own"):
                raise CertificateError("One of any number of tokens reads none but itself", "other rows")
    return network.tokens or rows


def outputs_of(target: Target, tokens: int) -> Iterator[Output]:
    """Every output of so many tokens, with its formula."""
    if isinstance(target, Formula | SeveralFormulas):
        trees, inputs = (target.tree,) if isinstance(target, Formula) else target.trees, target.names
        yield from (Output(0, j, tree, {name: i for i, name in enumerate(inputs)}) for j, tree in enumerate(trees))
        return
    if not isinstance(target, TruncatedLinear):
        raise CertificateError("This proof covers formulas and truncated linear functions", target.describe())
    for i in range(tokens):
        w, t = target.w[min(i, len(target.w) - 1)], float(target.t[min(i, len(target.t) - 1)])
        names = {f"x[{j}]": i * target.features + j for j in range(target.features)}
        form = plus(*(times(Constant(float(v)), Variable(name)) for v, name in zip(w, names, strict=True)), Constant(t))
        tree = of("clamp", form, Constant(target.lower), Constant(target.upper))
        for j in range(target.outputs or 1):
            wanted = tree if j == target.output or target.outputs is None else Constant(0.0)
            yield Output(i, j, wanted, names)
