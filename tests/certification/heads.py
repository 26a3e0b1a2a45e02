"""Graphs that prover and checker are tried on; heads by place, (layer, number), to change one under a certificate."""

GRAPHS = {
    "gravity": ("G*m*n/((x - a)^2 + (y - b)^2)", {"G": (1, 2), "m": (1, 2), "n": (1, 2), "x": (3, 4), "a": (1, 2),
                "y": (3, 4), "b": (1, 2)}),
    "products": ("x*y*z*w", dict.fromkeys("xyzw", (-1, 1))),
    "kinks": ("max(x*y, z) - abs(x + z)", dict.fromkeys("xyz", (-1, 1))),
    "logistic": ("tanh(x + 2*y)*sigmoid(z - x)", dict.fromkeys("xyz", (-1, 1))),
    "exponential": ("x*exp(-y^2 - z)", dict.fromkeys("xyz", (-1, 1))),
}  # fmt: skip


def head_at(network, place):
    return network.layers[place[0]].heads[place[1]]
