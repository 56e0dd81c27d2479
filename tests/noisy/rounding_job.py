"""A model in a number format, on one process or cut over two.

``python -m tests.noisy.rounding_job FORMAT RANK SIZE FOLDER`` records a run of each variant below FOLDER: ``right``,
``right1`` to ``right3`` (on one process), of which parameters and inputs moved by one unit round-off, ``backwards``,
and the names of modules whose result is wrong by 10 eps.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.parallel_layers import CopyInput, ReduceOutput

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
MOVED = ("right1", "right2", "right3")
BACKWARDS = "backwards"
"""Another correct program: it adds up each product from the last column to the first, as do those with a fault."""
FAULTS = ("blocks.0.norm", "blocks.1.up", "blocks.2.down", "head")
BLOCKS, WIDTH = 4, 64


class Format:
    """The number format of a run, and where it is wrong."""

    def __init__(self, name: str, variant: str, size: int) -> None:
        self.dtype, self.variant, self.size = FORMATS[name], variant, size
        self.eight_bits, self.backwards = name == "fp8", not variant.startswith("right")
        self.kept = torch.float32 if self.eight_bits else self.dtype
        """The dtype of parameters and activations."""

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """Return the operand of a product: in eight bits, with one scale for the whole tensor, where emulated."""
        if not self.eight_bits:
            return x
        amax = x.detach().abs().amax()
        if self.size > 1:
            dist.all_reduce(amax, op=dist.ReduceOp.MAX)
        scale = 448.0 / amax
        return x + ((x.detach() * scale).to(self.dtype).to(x.dtype) / scale - x.detach())

    def product(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return x times the weight, by a kernel that is not recorded and may add up from the last column on."""
        x, weight = self.rounded(x), self.rounded(weight)
        if self.backwards:
            x, weight = torch.ops.aten.flip(x, [-1]), torch.ops.aten.flip(weight, [-1])
        return torch.ops.aten.linear(x, weight)

    def result(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return the result of a module: wrong by 10 eps, by a call that is not recorded, where the fault is."""
        if name != self.variant:
            return x
        gain = torch.ops.aten.full([], 1.0 + 10.0 * torch.finfo(self.dtype).eps, dtype=torch.float64)
        return torch.ops.aten.mul.Tensor(x, gain.to(x.dtype))


class Linear(nn.Module):
    """A linear layer; ``cut`` is the axis of its weight that is cut over the ranks, if any."""

    def __init__(self, name: str, rows: int, columns: int, form: Format, cut: int | None, rank: int) -> None:
        super().__init__()
        weight = torch.randn(rows, columns) * columns**-0.5
        self.name, self.form, self.cut = name, form, cut if form.size > 1 else None
        part = weight if self.cut is None else weight.chunk(form.size, self.cut)[rank].clone()
        self.weight = nn.Parameter(part.to(form.kept))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = CopyInput.apply(x) if self.cut == 0 else x
        y = self.form.product(x, self.weight)
        y = ReduceOutput.apply(y) if self.cut == 1 else y
        return self.form.result(y, self.name)


class Norm(nn.Module):
    def __init__(self, name: str, form: Format) -> None:
        super().__init__()
        self.name, self.form = name, form
        self.weight = nn.Parameter(torch.ones(WIDTH, dtype=form.kept))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.form.result(F.rms_norm(x, (WIDTH,), self.weight), self.name)


class Block(nn.Module):
    def __init__(self, name: str, form: Format, rank: int) -> None:
        super().__init__()
        self.norm = Norm(f"{name}.norm", form)
        self.up = Linear(f"{name}.up", 2 * WIDTH, WIDTH, form, 0, rank)
        self.down = Linear(f"{name}.down", WIDTH, 2 * WIDTH, form, 1, rank)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, form: Format, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block(f"blocks.{number}", form, rank) for number in range(BLOCKS))
        self.head = Linear("head", WIDTH, WIDTH, form, None, rank)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def record(folder: Path, form: Format, rank: int) -> None:
    forget()
    seed = form.variant.removeprefix("right")
    model = Model(form, rank)
    batch = torch.randn(4, 32, WIDTH).to(form.kept)
    config = {"task": "statistics", "level": "mix", "dump_path": str(folder / form.variant)}
    debugger = PrecisionDebugger(config | ({"perturb": int(seed)} if seed.isdigit() else {}))
    with debugger.collect(model, rank_id=rank):
        model(batch).square().mean().backward()


def main(name: str, rank: int, size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    if size > 1:
        store = f"file://{folder / 'store'}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    for variant in ("right", *(MOVED if size == 1 else ()), BACKWARDS, *FAULTS):
        record(folder, Format(name, variant, size), rank)
    if size > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
