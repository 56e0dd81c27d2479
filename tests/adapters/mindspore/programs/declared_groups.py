"""One of two processes of ``msrun`` that say what groups hold: each leaves a file of its rank in the folder named."""

import sys
from pathlib import Path

import mindspore
import mindspore.mint.distributed as dist
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from msprobe.core.dump.record.declared_shards import ATTRIBUTE
from msprobe.core.errors import MsprobeException
from msprobe.mindspore.parallel import shard

mindspore.communication.init("mccl")
rank = dist.get_rank()
weight = Parameter(Tensor(np.ones((3, 4), np.float32)), name="weight")
shard(weight, 0)
assert getattr(weight, ATTRIBUTE) == [{"dim": 0, "group": [0, 1]}]
both, alone = dist.new_group([0, 1]), dist.new_group([1])
shard(weight, -1, both)
assert getattr(weight, ATTRIBUTE) == [{"dim": 1, "group": [0, 1]}]
if rank == 1:
    shard(weight, 0, alone)
    assert getattr(weight, ATTRIBUTE) == [{"dim": 1, "group": [0, 1]}], "a group of one rank says nothing"
else:
    with pytest.raises(MsprobeException, match="is no communication group that this rank is a member of"):
        shard(weight, 0, alone)
with pytest.raises(MsprobeException, match="knows no communication group 'never made'"):
    shard(weight, 0, "never made")
with pytest.raises(MsprobeException, match="is no communication group that this rank"):
    shard(weight, 0, 3)  # type: ignore[arg-type]
Path(sys.argv[1], str(rank)).touch()
