"""Networks as PyTorch modules on ``scaled_dot_product_attention``; few keys are written out, products factorised."""

from attnforge.runtime.audit import audit, operations
from attnforge.runtime.joint import JointModule
from attnforge.runtime.module import AttentionNetwork
from attnforge.runtime.shapes import TargetModule

__all__ = ["AttentionNetwork", "JointModule", "TargetModule", "audit", "operations"]
