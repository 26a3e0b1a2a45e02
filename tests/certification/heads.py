"""Heads of a network by their place, (layer, number): to change one under a certificate."""

from dataclasses import replace

from attnforge.network import Attention


def heads_of(network):
    layers = enumerate(network.layers)
    return [(i, j) for i, layer in layers if isinstance(layer, Attention) for j in range(len(layer.heads))]


def head_at(network, place):
    return network.layers[place[0]].heads[place[1]]


def with_head(network, place, **changes):
    i, j = place
    layer = network.layers[i]
    heads = tuple(replace(head, **changes) if n == j else head for n, head in enumerate(layer.heads))
    return replace(network, layers=(*network.layers[:i], replace(layer, heads=heads), *network.layers[i + 1 :]))
