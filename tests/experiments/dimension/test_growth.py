import numpy as np
import pytest

from attnforge.experiments.dimension.growth import base_of, misfits


def test_growth() -> None:
    d = np.arange(1, 9)
    assert base_of(d, 5 * 2.5**d).value == pytest.approx(2.5)
    power, exponential = misfits((d, 4 * d**3), (d, 7 * d))
    assert power < 1e-20 < exponential
    assert misfits((d, 7.0**d)) == pytest.approx(misfits((d, 2 * 7.0**d)), abs=1e-12)
    assert misfits((d, 7.0**d))[1] < 1e-20 < misfits((d, 7.0**d))[0]
