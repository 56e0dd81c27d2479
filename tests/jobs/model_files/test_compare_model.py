"""An exported model against the dump of its program: it agrees, and the node that is changed is the one named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import MsprobeException
from msprobe.jobs.model_files.compare_model import OfflineComparison, OfflineOptions, compare_model, run_model
from tests.offline_models.exported import (
    EXPORTERS,
    export,
    input_files,
    other_attribute,
    other_weight,
    planted,
)

pytestmark = [pytest.mark.torch, pytest.mark.slow]
FAULTS: dict[str, tuple[str, int, Any]] = {
    "weight": ("MatMul", 2, other_weight),
    "epsilon": ("LayerNormalization", 1, other_attribute("epsilon", 1e-2)),
    "formula": ("Gelu", 0, other_attribute("approximate", "tanh")),
    "axis": ("Softmax", 0, other_attribute("axis", 1)),
}


def compared(model: Path, golden: Path, output: Path, files: tuple[Path, ...]) -> OfflineComparison:
    return compare_model(model, golden, output, OfflineOptions(input_data=files))


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_agrees_with_the_program(recordings: Any, tmp_path: Path, exporter: str, task: str) -> None:
    folder = recordings(export, task)
    found = compared(folder / f"{exporter}.onnx", folder / "run", tmp_path, input_files(folder))
    assert found.result.summary.verdict == "same"
    assert found.result.summary.counts.passed > 40
    assert not found.first_node
    assert all(verdict.level == "pass" for run in found.runs for verdict in run.optimized.values())


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_names_the_changed_node(recordings: Any, tmp_path: Path, exporter: str, fault: str) -> None:
    folder, model = recordings(export, "tensor"), tmp_path / "model.onnx"
    op, place, change = FAULTS[fault]
    name = planted(folder / f"{exporter}.onnx", model, op, place, change)
    found = compared(model, folder / "run", tmp_path / "out", input_files(folder))
    assert found.result.summary.verdict == "diverged"
    assert found.first_node.startswith(f"{name} ({op})")


def test_two_exports_of_one_program_agree(recordings: Any, tmp_path: Path) -> None:
    folder = recordings(export, "tensor")
    found = compared(folder / "legacy.onnx", folder / "dynamo.onnx", tmp_path, ())
    assert found.result.summary.verdict == "same"


def test_a_quantized_model_begins_to_differ_where_it_rounds_first(recordings: Any, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder = recordings(export, "tensor")
    quantize_dynamic(folder / "legacy.onnx", tmp_path / "model.onnx", weight_type=QuantType.QInt8)
    found = compared(tmp_path / "model.onnx", folder / "run", tmp_path / "out", input_files(folder))
    assert found.first_node == "/emb/Gather (Gather)"


def test_a_dump_needs_the_inputs_of_its_run(recordings: Any, tmp_path: Path) -> None:
    folder = recordings(export, "tensor")
    with pytest.raises(MsprobeException, match="give them with --input_data"):
        compared(folder / "legacy.onnx", folder / "run", tmp_path, ())


def test_a_range_of_shapes_is_a_step_each(recordings: Any, tmp_path: Path) -> None:
    folder = recordings(export, "tensor")
    options = OfflineOptions(dym_shape_range="ids:1~2,3;mask:2,3")
    shapes = []
    with pytest.raises(MsprobeException, match="cannot run it"):
        for run in run_model(folder / "dynamo.onnx", tmp_path, options):
            shapes.append(run.shapes)
    assert not shapes  # the size is fixed in this file
    runs = list(run_model(folder / "legacy.onnx", tmp_path, OfflineOptions(dym_shape_range="ids:1-2,3;mask:1,3")))
    assert [run.shapes["ids"] for run in runs] == [(1, 3), (2, 3)]
    assert [run.recorded.folder.parent.name for run in runs] == ["step0", "step1"]


def test_a_damaged_name_in_the_dump_is_a_difference(recordings: Any, tmp_path: Path) -> None:
    folder = recordings(export, "tensor")
    shutil.copytree(folder / "run", tmp_path / "run")
    (document,) = (tmp_path / "run").rglob("dump.json")
    text = document.read_text()
    assert '"Module.head.Linear.forward.0":' in text
    document.write_text(text.replace('"Module.head.Linear.forward.0":', '"Module.head.Linear.forward.0x1f":'))
    found = compared(folder / "legacy.onnx", tmp_path / "run", tmp_path / "out", input_files(folder))
    assert found.result.summary.verdict == "diverged"
