"""What a program can tell about its parallel layout.

from msprobe.pytorch.parallel import shard
self.weight = shard(nn.Parameter(part), dim=0, group=tensor_parallel_group)
"""

from __future__ import annotations

from msprobe.adapters.pytorch.tensors.declared_shards import shard

__all__ = ["shard"]
