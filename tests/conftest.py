"""What all tests share: hypothesis profiles, figures without a display, one thread a process."""

import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything imports matplotlib
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch: small problems, several processes
os.environ.setdefault(
    "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
)  # as scripts/setup.sh: tiles may be announced, not given

# No deadline: the first example of a test may pay for importing torch.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, max_examples=50, **_COMMON)
settings.register_profile("dev", max_examples=30, **_COMMON)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(params=["compiled", "torch"])
def window_version(request, monkeypatch):
    """Both versions of the window kernel, whatever the batch."""
    monkeypatch.setattr("attnforge.runtime.window.COMPILED", 0 if request.param == "compiled" else float("inf"))
    return request.param
