"""A comparison in which everything differs in one way names the option that compares it."""

from __future__ import annotations

from pathlib import Path

from msprobe.jobs.compare import compare
from tests.compare.dumps import Entry, call, number, tensor, write


def run(folder: Path, **shapes: tuple[int, ...]) -> Path:
    first, second = (shapes.get(name, (4, 8)) for name in ("first", "second"))

    def of(shape: tuple[int, ...]) -> Entry:
        return tensor(shape=shape)

    data = {f"Functional.op{number_}.0.forward": call([of(first), number(2.0)], [of(second)]) for number_ in range(3)}
    return write(folder, data)


def reason(*runs: Path) -> str:
    return compare(*runs).summary.reason


def test_a_longer_batch(tmp_path: Path) -> None:
    long = run(tmp_path / "a", first=(8, 32, 4), second=(8, 2, 32, 32))
    short = run(tmp_path / "b", first=(1, 17, 4), second=(1, 2, 17, 17))
    assert "longer in the target: --target-slice 0/8=:1,*/32=:17 " in reason(long, short)
    assert "longer in the golden run: --golden-slice 0/8=:1,*/32=:17 " in reason(short, long)
    assert "it needs dumps of task tensor" in reason(long, short)


def test_shapes_that_differ_in_many_ways(tmp_path: Path) -> None:
    left = run(tmp_path / "a", first=(8, 3), second=(2, 9))
    right = run(tmp_path / "b", first=(1, 4), second=(5, 3))
    assert "--target-slice and --golden-slice compare a part" in reason(left, right)


def test_one_wrong_call_is_no_other_batch(tmp_path: Path) -> None:
    data = {f"Functional.op{count}.0.forward": call([tensor()], [tensor()]) for count in range(9)}
    other = {**data, "Functional.op4.0.forward": call([tensor()], [tensor(shape=(4, 9))])}
    assert "slice" not in reason(write(tmp_path / "a", other), write(tmp_path / "b", data))
    other["Functional.op4.0.forward"] = call([tensor()], [tensor(shape=(3, 8))])
    assert "slice" not in reason(write(tmp_path / "c", other), write(tmp_path / "d", data))
