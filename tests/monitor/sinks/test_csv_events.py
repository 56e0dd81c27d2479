"""``csv2tensorboard_by_step``, read back with TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from msprobe.pytorch.monitor.csv2tb import csv2tensorboard_by_step  # noqa: E402

from msprobe.core.errors import MsprobeException, ReadError  # noqa: E402
from tests.monitor.trained import train  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def monitored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    train({"xy_distribution": True, "wg_distribution": True, "ops": ["norm", "max"]}, steps=3)
    return tmp_path / "out"


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.parametrize("processes", [1, 2])
def test_each_statistic_of_a_tensor_is_a_line_over_the_steps(monitored: Path, tmp_path: Path, processes: int) -> None:
    target = tmp_path / "events"
    csv2tensorboard_by_step(
        monitored, process_num=processes, data_type_list=["actv", "grad_reduced"], output_dirpath=target
    )
    assert {path.name for path in (target / "rank0").iterdir()} == {"actv", "grad_reduced"}
    gradients = scalars(target / "rank0" / "grad_reduced")
    assert [step for step, _ in gradients["vp0:fc1.weight/norm"]] == [0, 1, 2]
    assert "vp0:fc1.input:micro0/max" in scalars(target / "rank0" / "actv")


def test_files_that_are_appended_to_are_read_too(monitored: Path, tmp_path: Path) -> None:
    documented, appended = tmp_path / "documented", tmp_path / "appended"
    csv2tensorboard_by_step(monitored, data_type_list=["grad_reduced"], output_dirpath=documented)
    for number, file in enumerate(sorted(monitored.rglob("grad_reduced_*.csv"))):
        file.rename(file.with_name(f"grad_reduced_part{number}.csv"))
    csv2tensorboard_by_step(monitored, data_type_list=["grad_reduced"], output_dirpath=appended)
    assert scalars(appended / "rank0" / "grad_reduced") == scalars(documented / "rank0" / "grad_reduced")


def test_the_default_folder_has_the_time(monitored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv2tensorboard_by_step(str(monitored), "Jan01_00-00-00", "Dec31_23-59-59")
    (made,) = tmp_path.glob("*-csv2tensorboard_by_step")
    assert {path.name for path in (made / "rank0").iterdir()} == {"actv", "actv_grad", "grad_reduced", "grad_unreduced"}


def test_wrong_arguments_are_told(monitored: Path, tmp_path: Path) -> None:
    for arguments in ({"process_num": 0}, {"data_type_list": ["bogus"]}, {"time_start": "yesterday"}):
        with pytest.raises(MsprobeException, match="csv2tensorboard_by_step"):
            csv2tensorboard_by_step(monitored, output_dirpath=tmp_path, **arguments)
    with pytest.raises(ReadError, match="no run"):
        csv2tensorboard_by_step(tmp_path / "none", output_dirpath=tmp_path)
