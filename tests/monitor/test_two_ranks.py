"""Collectives of two ranks under both versions of the monitor, and parameters that FSDP2 has sharded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.monitor.trained import Rows, rows_of  # noqa: E402
from tests.ranks import run_ranks  # noqa: E402

pytestmark = pytest.mark.torch

MODULE = "tests.monitor.test_two_ranks"


def first(tmp_path: Path, program: str, config: dict[str, Any]) -> list[str]:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(config))
    return run_ranks(
        MODULE, 2, lambda rank: [program, rank, tmp_path / "store", file], MONITOR_OUTPUT_DIR=str(tmp_path / "out")
    )


def of_rank(folder: Path, source: str, rank: int) -> Rows:
    kept = folder / f"only{rank}"
    kept.mkdir()
    for path in folder.glob(f"*-rank{rank}-*"):
        path.rename(kept / path.name)
    return rows_of(kept, source)


def test_arguments_before_and_after_of_chosen_lines(tmp_path: Path) -> None:
    config = {"cc_distribution": {"enable": True, "cc_pre_hook": True}, "ops": ["max"]}
    first(tmp_path, "collectives", config)
    rows = of_rank(tmp_path / "out", "comm", 1)
    by_kind = {row["name"].split("@")[0] + "." + row["name"].split(".")[-1].split("_")[0]: row["max"] for row in rows}
    assert by_kind["all_reduce.pre"] == "2.0"
    assert by_kind["all_reduce.post"] == "3.0"
    lines = {row["name"].split("@")[1].split("]")[0] + "]" for row in rows}
    assert len(lines) == 2
    chosen = sorted(lines)[0]
    (tmp_path / "two").mkdir()
    first(tmp_path / "two", "collectives", {"cc_distribution": {"enable": True, "cc_codeline": [chosen]}})
    names = {row["name"] for row in of_rank(tmp_path / "two" / "out", "comm", 0)}
    assert names and all(chosen in name and ".post" in name for name in names)


def test_only_the_lines_are_told_and_the_training_goes_on(tmp_path: Path) -> None:
    logs = first(tmp_path, "collectives", {"cc_distribution": {"enable": True, "cc_log_only": True}})
    assert all("cc_log_only: all_reduce is called at test_two_ranks.py[" in log for log in logs)
    assert all("the end" in log for log in logs)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("nested", [False, True])
def test_the_second_version(tmp_path: Path, nested: bool) -> None:
    keys = {"cc_pre_hook": True, "module_ranks": [1]}
    section = {"cc_distribution": {"enable": True, **keys}} if nested else {"enabled": True, **keys}
    first(tmp_path, "second", {"output_dir": str(tmp_path / "out"), "monitors": {"cc": section}})
    (file,) = (tmp_path / "out").glob("rank_*/cc_step0-0.csv")
    assert file.parent.name == "rank_1"
    assert ".pre" in file.read_text()


@pytest.mark.slow
def test_shards_of_fsdp2_are_those_of_this_rank(tmp_path: Path) -> None:
    first(tmp_path, "sharded", {"wg_distribution": True, "param_distribution": True, "xy_distribution": True})
    rows = of_rank(tmp_path / "out", "grad_reduced", 0)
    assert {row["name"] for row in rows} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert all(float(row["norm"]) > 0 for row in rows)


def main(program: str, rank: int, store: str, config: str) -> None:
    """Run one rank."""
    from torch import distributed

    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    if program == "sharded":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if program == "second":
        from msprobe.pytorch import TrainerMonitorV2

        monitor: Any = TrainerMonitorV2(config)
        monitor.start(model=model, optimizer=optimizer)
    else:
        from msprobe.pytorch import TrainerMon

        monitor = TrainerMon(config)
        monitor.set_monitor(model, optimizer)
    model(torch.ones(2, 4)).sum().backward()
    one = torch.full((3,), float(rank + 1))
    distributed.all_reduce(one)
    distributed.all_gather([torch.zeros(3), torch.zeros(3)], one, async_op=True).wait()
    optimizer.step()
    monitor.stop()
    print("the end")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
