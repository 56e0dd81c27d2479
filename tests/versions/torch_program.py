"""A training of PyTorch in the ways that every supported version has to record: ``python torch_program.py FOLDER``.

Each kind of recording is written to a folder of its own. Gradients and parameters have to be those of a run without the
tool, bit for bit. It imports nothing of the tests: the versions it runs in have only what msprobe needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe.core.dump.session import process_debugger
from msprobe.pytorch import PrecisionDebugger, seed_all

RECORDINGS = [(task, level) for task in ("statistics", "tensor") for level in ("L0", "L1", "mix")]
STEPS = 2


class Net(nn.Module):
    """Layers, functions, attention and two recomputed blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)) for _ in range(3))
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        x = x + nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        x = checkpoint(self.blocks[0], x, use_reentrant=False)
        x = checkpoint(self.blocks[1], x, use_reentrant=True)
        return self.head(self.blocks[2](x).relu_())


def train(wrap: Callable[[nn.Module], Callable[[torch.Tensor], torch.Tensor]], folder: Path, **settings: str) -> bytes:
    """Train for some steps, recorded where there are settings; return the bytes of gradients and parameters."""
    seed_all(3)
    net = Net()
    call, optimizer = wrap(net), torch.optim.AdamW(net.parameters(), lr=1e-2)
    tokens = torch.arange(30).reshape(3, 10) % 11
    debugger = PrecisionDebugger(dump_path=str(folder), **settings) if settings else None
    grads = b""
    for _ in range(STEPS):
        if debugger is not None:
            debugger.start(net)
        loss = nn.functional.cross_entropy(call(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        grads += b"".join(value.grad.numpy().tobytes() for value in net.parameters() if value.grad is not None)
        optimizer.zero_grad()
    if debugger is not None:
        end_recording()
    return grads + b"".join(value.detach().numpy().tobytes() for value in net.parameters())


def end_recording() -> None:
    """End the debugger as the exit of a process does, so that the next one is another."""
    session = process_debugger.peek()
    process_debugger.put(None)
    session.close()
    PrecisionDebugger._instance = None


def main(folder: Path) -> None:
    """Record every kind, also with a compiled model, and say what changed the training."""
    faults = []
    bare = train(lambda net: net, folder)
    for task, level in RECORDINGS:
        if train(lambda net: net, folder / f"{task}_{level}", task=task, level=level) != bare:
            faults.append(f"{task} {level} changes the training")
    torch._dynamo.reset()
    compiled = train(lambda net: torch.compile(net, backend="eager"), folder)
    torch._dynamo.reset()
    settings = {"task": "statistics", "level": "mix"}
    if train(lambda net: torch.compile(net, backend="eager"), folder / "compiled", **settings) != compiled:
        faults.append("recording changes the compiled training")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
