"""A comparison needs less memory than 1.5 times the largest tensor, whatever the format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

from tests.core.tensor_files.encoder import message
from tests.rules.tree import ROOT

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc"),
]
LARGEST = 8 << 20  # elements of four bytes
Weights = dict[str, torch.Tensor]


def _torch(path: Path, state: Weights) -> Path:
    torch.save(state, path / "w.pt")
    return path / "w.pt"


def _safetensors(path: Path, state: Weights) -> Path:
    save_file(state, path / "model.safetensors")
    return path


def _dcp(path: Path, state: Weights) -> Path:
    dcp.save(state, checkpoint_id=path / "dcp", no_dist=True)
    return path / "dcp"


def _mindspore(path: Path, state: Weights) -> Path:
    """A parameter in two values, as MindSpore writes large ones."""
    fields = []
    for name, tensor in state.items():
        for half in tensor.numpy().reshape(2, -1):
            dims = [(1, size) for size in tensor.shape]
            part = message([*dims, (2, b"Float32"), (3, half.tobytes())])
            fields.append((1, message([(1, name.encode()), (2, part)])))
    (path / "w.ckpt").write_bytes(message(fields))
    return path / "w.ckpt"


def _megatron(path: Path, state: Weights) -> Path:
    """Two tensor-parallel ranks, which share one weight along its columns."""
    for rank in range(2):
        folder = path / "iter_0000001" / f"mp_rank_0{rank}"
        folder.mkdir(parents=True)
        model = {f"decoder.{name}.linear_proj.weight": one.chunk(2, 1)[rank].clone() for name, one in state.items()}
        torch.save({"model": model}, folder / "model_optim_rng.pt")
    return path


@pytest.mark.matrix("wide")
def test_peak(tmp_path: Path) -> None:
    paths = []
    for write in (_torch, _safetensors, _dcp, _mindspore, _megatron):
        for side in (0, 1):
            folder = tmp_path / write.__name__ / str(side)
            folder.mkdir(parents=True)
            pattern = np.arange(LARGEST, dtype=np.float32) % 1000 + side
            paths.append(str(write(folder, {"w": torch.from_numpy(pattern.reshape(-1, 1024))})))
    program = [sys.executable, "-m", "tests.checkpoints.compare_in_memory", *paths]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    growths = json.loads(done.stdout)
    assert len(growths) == 5 and max(growths) < 1.5 * 4 * LARGEST
