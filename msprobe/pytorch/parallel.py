"""What a program can tell about its parallel layout, and values that are equal in every layout.

from msprobe.pytorch.parallel import consistent_, shard
self.weight = shard(nn.Parameter(part), dim=0, group=tensor_parallel_group)
consistent_(model, seed=1)
"""

from __future__ import annotations

from msprobe.adapters.pytorch.tensors.consistent import consistent_
from msprobe.adapters.pytorch.tensors.declared_shards import shard

__all__ = ["consistent_", "shard"]
