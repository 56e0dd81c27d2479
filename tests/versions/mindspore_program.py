"""A training of MindSpore in the ways that every supported version has to record.

``python mindspore_program.py FOLDER``

Each kind of recording is written to a folder of its own. Gradients and parameters have to be those of a run without the
tool, bit for bit. It imports nothing of the tests: the versions it runs in have only what msprobe needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from msprobe.core.dump.session import process_debugger
from msprobe.mindspore import PrecisionDebugger, seed_all

RECORDINGS = [(task, level) for task in ("statistics", "tensor") for level in ("L0", "L1", "mix")]
STEPS = 2


class Net(nn.Cell):
    """Layers and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(8, 8), nn.Dense(8, 3)
        self.norm, self.act = nn.LayerNorm((8,)), nn.GELU()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = self.norm(self.act(self.first(x)))
        return self.second(x + ops.softmax(ops.matmul(x, x.T), -1).sum())


def train(folder: Path, **settings: str) -> bytes:
    """Train for some steps, recorded where there are settings; return the bytes of gradients and parameters."""
    seed_all(3)
    net, loss = Net(), nn.CrossEntropyLoss()
    drawn = np.random.default_rng(1)
    for parameter in net.trainable_params():
        parameter.set_data(ms.Tensor(drawn.normal(size=parameter.shape).astype(np.float32)))
    optimizer = nn.Adam(net.trainable_params(), learning_rate=1e-2)
    x = ms.Tensor(drawn.normal(size=(4, 8)).astype(np.float32))
    labels = ms.Tensor(np.array([0, 1, 2, 0], np.int32))
    backward = ms.value_and_grad(lambda: loss(net(x), labels), None, net.trainable_params())
    debugger = PrecisionDebugger(dump_path=str(folder), **settings) if settings else None
    grads = b""
    for _ in range(STEPS):
        if debugger is not None:
            debugger.start(net)
        _, gradients = backward()
        optimizer(gradients)
        if debugger is not None:
            debugger.stop()
            debugger.step()
        grads += b"".join(value.asnumpy().tobytes() for value in gradients)
    if debugger is not None:
        end_recording()
    return grads + b"".join(value.asnumpy().tobytes() for value in net.trainable_params())


def end_recording() -> None:
    """End the debugger as the exit of a process does, so that the next one is another."""
    session = process_debugger.peek()
    process_debugger.put(None)
    session.close()
    PrecisionDebugger._instance = None


def main(folder: Path) -> None:
    """Record every kind, and say what changed the training."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    bare = train(folder)
    faults = [
        f"{task} {level} changes the training"
        for task, level in RECORDINGS
        if train(folder / f"{task}_{level}", task=task, level=level) != bare
    ]
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
