"""Papers that several entries follow."""

from __future__ import annotations

HU = "Hu et al. 2025, Universal Approximation with Softmax Attention, arXiv:2504.15956"
LIU = "Liu et al. 2025, Attention Mechanism, Max-Affine Partition, and Universal Approximation, arXiv:2504.19901"
MAZYA = "Maz'ya and Schmidt 2007, Approximate Approximations (values fitted to a Gaussian-like partition of unity)"
FEYNMAN = "Udrescu and Tegmark 2020, AI Feynman, arXiv:1905.11481, after the Feynman Lectures on Physics"
RASP = "Weiss et al. 2021, Thinking Like Transformers, arXiv:2106.06981"
OSWALD = "von Oswald et al. 2023, Transformers Learn In-Context by Gradient Descent, arXiv:2212.07677"
OURS = "attnforge"
