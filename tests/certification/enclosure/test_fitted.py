"""What the proof of fitted heads refuses."""

import numpy as np
import pytest

import attnforge as af


def test_a_network_of_other_shape_is_refused():
    pair = af.compile(lambda x: np.stack([np.sin(x), np.cos(x)], axis=-1), {"x": (0, 1)}, tol=1e-4)
    with pytest.raises(af.CertificateError, match="return one value"):
        af.certify(pair.network, "sin(x)", {"x": (0, 1)})
    with pytest.raises(af.CertificateError, match="must take 2 inputs"):
        af.certify(af.compile("sin(x)", {"x": (0, 1)}, tol=1e-4).network, "sin(x) + y", {"x": (0, 1), "y": (0, 1)})
