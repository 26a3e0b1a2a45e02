"""Networks as PyTorch modules on ``scaled_dot_product_attention``; few keys are written out, products factorised."""

from attnforge.runtime.audit import audit, operations
from attnforge.runtime.joint import JointModule
from attnforge.runtime.many_machines import gathered, over_cluster, over_processes
from attnforge.runtime.module import AttentionNetwork
from attnforge.runtime.shapes import TargetModule
from attnforge.runtime.sharded import Partial, mean, merge, partial

__all__ = [
    "AttentionNetwork",
    "JointModule",
    "Partial",
    "TargetModule",
    "audit",
    "gathered",
    "mean",
    "merge",
    "operations",
    "over_cluster",
    "over_processes",
    "partial",
]
