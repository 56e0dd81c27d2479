"""What one process sends is what the other one receives; a process that ends is noticed."""

import os
from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.workers.fork_channel import Channel, LostError, lines_in


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # other threads wait for work, with no lock held
def test_messages_between_processes(tmp_path: Path) -> None:
    lines = lines_in(tmp_path)
    process = os.fork()
    if process == 0:  # echoes what it is sent, then ends
        channel = Channel(lines, first=False)
        head, arrays = channel.receive()
        channel.send([head, channel.write(b"text")], arrays)
        os._exit(0)
    channel = Channel(lines, first=True)
    given = {"empty": np.zeros((0, 4)), "flags": np.array([True, False]), "many": np.arange(1e6).reshape(-1, 8)}
    channel.send({"name": "ü", "nan": float("nan"), "none": None}, given)
    (head, at), arrays = channel.receive()
    assert head["name"] == "ü" and head["nan"] != head["nan"] and head["none"] is None
    assert channel.read(at, 4) == b"text"
    for name, values in given.items():
        assert arrays[name].dtype == values.dtype and np.array_equal(arrays[name], values)
    with pytest.raises(LostError):
        channel.receive()
    os.waitpid(process, 0)
    with pytest.raises(LostError):
        channel.send(None)
    with pytest.raises(LostError):
        channel.read(at, 1 << 30)
    channel.close()
    assert list(tmp_path.iterdir()) == []
