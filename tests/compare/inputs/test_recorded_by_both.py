"""Two samples of one program are compared by the calls of the smaller one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.compare.inputs.recorded_by_both import recorded_by_both
from msprobe.core.selection import sample_test
from msprobe.core.store.reader import Dump, Place

NAMES = [
    name
    for number in range(50)
    for name in (
        f"Torch.add.{number}.forward",
        f"Torch.add.{number}.backward",
        f"Module.fc.Linear.forward.{number}",
        f"Module.fc.Linear.backward.{number}",
        f"Module.fc{number}.Linear.parameters_grad.0",
    )
]


def dump(share: Any) -> Dump:
    test = sample_test(share) if isinstance(share, float) else None
    forward = {name: name.replace("backward", "forward") for name in NAMES}
    data: dict[str, dict[str, Any]] = {name: {} for name in NAMES if test is None or test(forward[name])}
    header = {} if share is None else {"sampled": {"every": 1, "share": share}}
    place = Place(Path("step0/rank0/dump.json"))
    return Dump(place, "statistics", "mix", "pytorch", data, header=header)


def test_the_smaller_share_decides() -> None:
    for one, other in ((0.5, 0.2), (0.2, None), (None, 0.7)):
        target, golden, notes = recorded_by_both(dump(one), dump(other))
        assert list(target.data) == list(golden.data)
        assert 0 < len(target.data) < len(NAMES)
        assert len(notes) == 1


def test_equal_shares_are_left_alone() -> None:
    for share in (0.3, None, "odd", {}):
        target, golden = dump(share), dump(share)
        assert recorded_by_both(target, golden) == (target, golden, [])
