"""What all tests share: hypothesis profiles, and figures without a display."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything imports matplotlib

# No deadline: the first example of a test may pay for importing torch.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, max_examples=50, **_COMMON)
settings.register_profile("dev", max_examples=30, **_COMMON)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
