"""Networks as PyTorch modules that run on ``scaled_dot_product_attention``; heads of few keys are written out."""

from attnforge.runtime.audit import audit, operations
from attnforge.runtime.joint import JointModule
from attnforge.runtime.module import AttentionNetwork
from attnforge.runtime.shapes import TargetModule

__all__ = ["AttentionNetwork", "JointModule", "TargetModule", "audit", "operations"]
