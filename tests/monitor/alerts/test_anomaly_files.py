"""``anomaly.json`` and what the processor makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.monitor.alerts.alert import Alert
from msprobe.monitor.alerts.anomaly_analysis import RESULT, analyse
from msprobe.monitor.alerts.anomaly_files import FILE, FOLDER, AnomalyFile
from msprobe.monitor.sources import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    GRADIENT_REDUCED,
    PARAMETER_AFTER,
    PARAMETER_BEFORE,
    Source,
)
from tests.monitor.alerts.rows import row

SOURCES = (ACTIVATION, ACTIVATION_GRADIENT, GRADIENT_REDUCED, PARAMETER_AFTER)


def write(folder: Path, rank: int, found: list[tuple[int, Source]]) -> None:
    file = AnomalyFile(folder, rank)
    file.number([row(0, 1.0, source=source) for source in SOURCES])
    file.write([Alert("AnomalyNan", row(step, 2.0, source=source), "norm", 2.0, 1.0, "") for step, source in found])


def test_the_file_is_as_published(tmp_path: Path) -> None:
    write(tmp_path, 1, [(3, GRADIENT_REDUCED)])
    document = json.loads((tmp_path / FOLDER / "rank1" / FILE).read_text())
    assert document == {
        "0:w/rank1/post_grad_step_3_call_2": {
            "rank": 1, "step": 3, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": 2,
            "tag_name": "0:w/rank1/post_grad",
            "message": "Rule AnomalyNan reports anomaly signal in ('0:w/rank1/post_grad', 'norm') at step 3, "
            "current value 2.0, history mean 1.0.",
            "group_mates": [1],
        }
    }  # fmt: skip


def test_the_earliest_of_all_ranks_come_first(tmp_path: Path) -> None:
    write(tmp_path, 0, [(2, PARAMETER_AFTER), (2, ACTIVATION_GRADIENT), (3, ACTIVATION)])
    write(tmp_path, 1, [(2, ACTIVATION), (1, GRADIENT_REDUCED)])
    found = analyse(tmp_path / FOLDER, most=4)
    assert [(one["step"], one["tag_name"].rpartition("/")[2]) for one in found.values()] == [
        (1, "post_grad"), (2, "actv"), (2, "actv_grad"), (2, "param_updated")
    ]  # fmt: skip
    assert json.loads((tmp_path / FOLDER / RESULT).read_text()) == found
    assert len(analyse(tmp_path / FOLDER, tmp_path / "out", steps=[3])) == 1


def test_causes_come_before_what_follows_from_them(tmp_path: Path) -> None:
    write(tmp_path, 0, [(2, PARAMETER_AFTER), (2, GRADIENT_REDUCED), (2, ACTIVATION), (2, PARAMETER_BEFORE)])
    found = [one["tag_name"].rpartition("/")[2] for one in analyse(tmp_path / FOLDER).values()]
    assert found == ["param_origin", "actv", "post_grad", "param_updated"]


@pytest.mark.parametrize("text", ["[", '{"a": 1}', '{"a": {"rank": "0"}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    folder = tmp_path / FOLDER / "rank0"
    folder.mkdir(parents=True)
    (folder / FILE).write_text(text)
    with pytest.raises(ReadError, match=FILE.replace(".", r"\.")):
        analyse(tmp_path / FOLDER)
