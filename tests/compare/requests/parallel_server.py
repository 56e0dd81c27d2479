"""The packed server, cut over several ranks.

``python -m tests.compare.requests.parallel_server RANK SIZE STORE ARGUMENT...`` is one rank of it. The arguments are
those of ``examples/serving/packed_server.py``. Heads and the features of the feed-forward part are cut, as servers do
it; with ``--not-added`` the second layer forgets to add up what the ranks have of its feed-forward part.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from tests.rules.tree import ROOT

sys.path.insert(0, str(ROOT / "examples" / "serving"))
import packed_server

NOT_ADDED = "--not-added"


class Cut(nn.Linear):
    """Holds some rows of the weight, of each of its equal blocks."""

    def __init__(self, whole: nn.Linear, blocks: int, rank: int, size: int) -> None:
        parts = [block.chunk(size)[rank] for block in whole.weight.detach().chunk(blocks)]
        super().__init__(whole.in_features, whole.out_features // size, bias=False)
        self.weight = nn.Parameter(torch.cat(parts))


class Added(nn.Linear):
    """Holds some columns of the weight, and adds up what the ranks have."""

    def __init__(self, whole: nn.Linear, rank: int, size: int) -> None:
        super().__init__(whole.in_features // size, whole.out_features, bias=False)
        self.weight = nn.Parameter(whole.weight.detach().chunk(size, 1)[rank].clone())
        self.added = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if self.added:
            dist.all_reduce(y)
        return y


def cut(model: packed_server.PackedDecoder, rank: int, size: int) -> packed_server.PackedDecoder:
    """Return the model with what a rank has of its layers."""
    for layer in model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        attention.qkv_proj = Cut(attention.qkv_proj, 3, rank, size)
        attention.o_proj = Added(attention.o_proj, rank, size)
        attention.heads //= size
        attention.keys, attention.values = (
            cache.chunk(size, 1)[rank].clone() for cache in (attention.keys, attention.values)
        )
        mlp.gate_up_proj, mlp.down_proj = Cut(mlp.gate_up_proj, 2, rank, size), Added(mlp.down_proj, rank, size)
    return model.eval()


def main(rank: int, size: int, store: Path, arguments: list[str]) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    model = cut(packed_server.build(), rank, size)
    if NOT_ADDED in arguments:
        model.layers[1].mlp.down_proj.added = False
    packed_server.build = lambda: model
    sys.argv = ["packed_server.py", *(each for each in arguments if each != NOT_ADDED)]
    packed_server.main()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
