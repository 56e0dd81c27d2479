"""What a program of MindSpore can tell about its parallel layout.

from msprobe.mindspore.parallel import shard
self.weight = shard(Parameter(part), dim=0, group=tensor_parallel_group)
"""

from __future__ import annotations

from msprobe.adapters.mindspore.tensors.declared_shards import shard

__all__ = ["shard"]
