"""A function compiled, certified, measured, run, saved and read again: the whole path, with types.

Run ``.venv/bin/python examples/first_network.py``: it writes ``wave.safetensors`` and prints what is proved. It is also
what ``scripts/package.py`` has mypy check, strictly, against the installed wheel.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

import attnforge as af


def errors(net: af.Compiled, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How far the network is from its target at these points."""
    difference: npt.NDArray[np.float64] = np.abs(net(points) - (np.sin(8 * points) + np.abs(points)))
    return difference


def main() -> None:
    """Compile, look, save, load."""
    net = af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-6, require="proved")
    certificate: af.Certificate = net.certificate
    bound = certificate.bound
    assert bound is not None
    assert errors(net, np.linspace(-1, 1, 1001)).max() <= af.measure(net).sup * 1.01 <= bound * 1.01

    module: torch.nn.Module = net.module()
    with torch.no_grad():
        print(module(torch.tensor([[0.3]], dtype=torch.float64)).item())

    net.save("wave.safetensors")
    again = af.load("wave.safetensors")
    assert again.anchors == net.anchors
    gate = af.constructions.gate([1.0, -0.5], 0.25, -1, 2, domain=af.Box(-3, 3))
    circle = af.compile(["sin(x)", "cos(x)"], {"x": ("-pi", "pi")}, tol=1e-3)
    weights: npt.NDArray[np.float64] = circle.attention(x=0.5)[0][0]
    own = af.constructions.tensor_grid("abs(x)", {"x": (-1, 1)}, anchors=[-1.0, -0.2, 0.0, 0.2, 1.0])
    clamp = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=(-1.0, 0.0, 0.5, 1.0))
    assert (weights.shape[-1], own.anchors, clamp.anchors) == (circle.network.heads[0].memory_size, 5, 4)
    print(
        f"attnforge {af.__version__}: proved {bound:.2g} with {net.anchors} keys, {gate.certificate.bound:.2g} with 3"
    )


if __name__ == "__main__":
    main()
