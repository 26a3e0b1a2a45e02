"""Algorithms that frozen softmax attention runs on the examples of its prompt.

An algorithm is data (:mod:`.algorithm`); a route supplies the heads that read residuals and add gradients up
(:mod:`.small_sharpness`, :mod:`.interpolation`); a block of layers is one step, and the network is the same block again
and again (:mod:`.block`). No network code is written for an algorithm.
"""
