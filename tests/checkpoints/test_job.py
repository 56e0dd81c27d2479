"""Two checkpoints of different frameworks: which values stand for each other, and which are no weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from msprobe.checkpoints.job import compare_checkpoints
from tests.core.tensor_files.encoder import message
from tests.core.tensor_files.test_mindspore_checkpoint import value

WEIGHT = np.arange(6, dtype=np.float32)


def test_numbers_of_append_dict(tmp_path: Path) -> None:
    """``epoch_num`` is stored like a parameter without a shape; ``scale`` and ``norm.gain`` are parameters."""
    numbers = {"epoch_num": np.int64(3), "scale": np.float32(2), "norm.gain": np.float32(1)}
    types = {"int64": "Int64", "float32": "Float32"}
    stored = [value(name, [0], types[str(one.dtype)], one.tobytes()) for name, one in numbers.items()]
    (tmp_path / "a.ckpt").write_bytes(message([value("w", [6], "Float32", WEIGHT.tobytes()), *stored]))
    save_file({"w": WEIGHT, "scale": np.array(2, np.float32)}, tmp_path / "b.safetensors")
    for sides in (("a.ckpt", "b.safetensors"), ("b.safetensors", "a.ckpt")):
        result = compare_checkpoints(tmp_path / sides[0], tmp_path / sides[1])
        kinds = {one.name: one.kind for one in result.parameters}
        missing = f"{('first', 'second')[sides.index('a.ckpt')]}_only"
        assert kinds == {"w": "equal", "scale": "equal", "norm.gain": missing}
        assert result.skipped[sides.index("a.ckpt")] == ["epoch_num"]
    (tmp_path / "c.ckpt").write_bytes(message([value("w", [6], "Float32", WEIGHT.tobytes())]))
    result = compare_checkpoints(tmp_path / "a.ckpt", tmp_path / "c.ckpt")
    assert result.counts() == {"equal": 1, "first_only": 3}  # two of MindSpore: both could have them
