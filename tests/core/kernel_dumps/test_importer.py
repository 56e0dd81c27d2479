"""Kernel dumps that MindSpore wrote, imported and compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.dump_folder import NativeFolder, NewFiles
from msprobe.core.kernel_dumps.importer import ImportPlan, import_dump, import_iterations
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.jobs.compare import compare

RECORDED = Path(__file__).parent / "recorded"


def imported(source: Path, target: Path) -> Any:
    (folder,) = import_dump(source, target)
    (place,) = find_dumps(folder)
    return load_dump(place)


def test_kernels_stand_in_execution_order_behind_the_inputs_of_their_graph(tmp_path: Path) -> None:
    dump = imported(RECORDED / "jit_grad", tmp_path)
    assert (dump.task, dump.level, dump.framework) == ("tensor", "L2", "mindspore")
    assert list(dump.data) == [
        "Kernel.Parameter.fc.bias.0.forward",
        "Kernel.Parameter.fc.weight.0.forward",
        "Kernel.Parameter.t.0.forward",
        "Kernel.Default.MatMul.0.forward",
        "Kernel.Default.BiasAdd.0.forward",
        "Kernel.Default.Tanh.0.forward",
        "Kernel.Parameter.input_1.0.forward",
        "Kernel.Parameter.input_2.0.forward",
        "Kernel.Parameter.input_3.0.forward",
        "Kernel.Default.Grad_Tanh.TanhGrad.0.backward",
        "Kernel.Default.Grad_MatMul.MatMul.0.backward",
        "Kernel.Default.Grad_BiasAdd.BiasAddGrad.0.backward",
    ]


def test_a_record_has_statistics_data_full_name_and_source_line(tmp_path: Path) -> None:
    dump = imported(RECORDED / "graph", tmp_path)
    name = "Kernel.Default.fc1-Dense.MatMul.0.forward"
    body = dump.data[name]
    assert body["full_name"] == "Default/fc1-Dense/MatMul-op0" and len(body["input_args"]) == 4
    (output,) = body["output"]
    array = np.load(dump.tensor_folder / output["data_name"])
    assert output["shape"] == [2, 3] and output["dtype"] == "Float32"
    assert output["Max"] == array.max() and output["Norm"] == pytest.approx(np.linalg.norm(array))
    assert dump.stacks[name][1] == "File <case>/script.py, line 34, in construct, \n h = self.relu(self.fc1(x))"


def test_the_shifted_names_of_jit_get_their_source_lines(tmp_path: Path) -> None:
    dump = imported(RECORDED / "jit_grad", tmp_path)
    assert dump.data["Kernel.Default.MatMul.0.forward"]["full_name"] == "Default/MatMul-op2"
    assert "self.matmul(x, self.weight)" in dump.stacks["Kernel.Default.MatMul.0.forward"][0]


def test_compare_names_the_kernel_that_changed(tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(RECORDED / "graph", changed)
    (file,) = changed.rglob("BiasAdd.*output.0.*.npy")
    np.save(file, np.load(file) + np.float32(1))
    import_dump(RECORDED / "graph", tmp_path / "golden")
    import_dump(changed, tmp_path / "target")
    summary = compare(tmp_path / "target", tmp_path / "golden", output=tmp_path / "out").summary
    assert summary.first_divergence is not None
    assert summary.first_divergence.target == "Kernel.Default.fc1-Dense.BiasAdd.0.forward"


def test_tensors_reduced_to_statistics_give_the_same_numbers(tmp_path: Path) -> None:
    source = tmp_path / "native"
    shutil.copytree(RECORDED / "graph", source)
    native = NativeFolder(source / "rank_0")
    plan = ImportPlan(
        "statistics", ("max", "min", "avg", "l2norm", "hash:md5"), {"producer": "cpu-fallback"}, reduce=True
    )
    count = import_iterations(native, native.iterations(), tmp_path / "step0/rank0", plan)
    assert count == 2 and not list(source.rglob("*.npy"))
    assert json.loads((tmp_path / "step0/rank0/dump.json").read_text())["producer"] == "cpu-fallback"
    (folder,) = import_dump(source, tmp_path / "again")
    first, again = (json.loads((path / "dump.json").read_text()) for path in (tmp_path / "step0/rank0", folder))
    name = "Kernel.Default.fc1-Dense.BiasAdd.0.forward"
    assert again["task"] == "statistics" and again["data"][name]["output"] == first["data"][name]["output"]
    assert len(first["data"][name]["output"][0]["md5"]) == 32


def test_only_what_is_new_is_found_even_in_a_folder_that_is_used_twice(tmp_path: Path) -> None:
    source = tmp_path / "native"
    shutil.copytree(RECORDED / "graph", source)
    native, new_files = NativeFolder(source / "rank_0"), NewFiles()
    (first,) = new_files.poll(native)
    assert new_files.poll(native) == []
    (old,) = source.rglob("BiasAdd.*output.0.*.npy")
    shutil.copyfile(old, old.with_name(old.name.replace("1795238291771103", "1795238299999999")))
    (second,) = new_files.poll(native)
    assert second.folder == first.folder and second.after == first.until
    plan = ImportPlan("tensor")
    assert import_iterations(native, [second], tmp_path / "one", plan) == 1
    assert import_iterations(native, [first, second], tmp_path / "both", plan) == 3


def test_bfloat16_files_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "native/rank_0/Net/0/0"
    folder.mkdir(parents=True)
    header = b"{'descr': '<E2', 'fortran_order': False, 'shape': (2, ), }"
    header += b" " * (117 - len(header)) + b"\n"
    data = np.array([0x3F80, 0xC000], np.uint16).tobytes()
    name = "Cast.Default_Cast-op0.0.0.17.output.0.DefaultFormat.BFloat16.npy"
    (folder / name).write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)
    dump = imported(tmp_path / "native", tmp_path / "out")
    (node,) = dump.data["Kernel.Default_Cast.0.forward"]["output"]
    assert (node["dtype"], node["Max"], node["Min"]) == ("BFloat16", 1.0, -2.0)


def test_overflow_keeps_only_kernels_with_non_finite_outputs(tmp_path: Path) -> None:
    source = tmp_path / "native"
    shutil.copytree(RECORDED / "graph", source)
    (file,) = source.rglob("BiasAdd.*output.0.*.npy")
    np.save(file, np.full((2, 3), np.nan, np.float32))
    native = NativeFolder(source / "rank_0")
    plan = ImportPlan("overflow_check", ("max", "nan count"), non_finite=True)
    assert import_iterations(native, native.iterations(), tmp_path / "out", plan) == 1
    assert list(json.loads((tmp_path / "out/dump.json").read_text())["data"]) == [
        "Kernel.Default.fc1-Dense.BiasAdd.0.forward"
    ]


@pytest.mark.parametrize("folders", ["", "rank_0/Net/0/0"], ids=["no rank", "nothing in it"])
def test_a_folder_without_a_kernel_dump_is_refused(tmp_path: Path, folders: str) -> None:
    (tmp_path / "native" / folders).mkdir(parents=True)
    with pytest.raises(ReadError, match=r"no kernel dump|nothing to import"):
        import_dump(tmp_path / "native", tmp_path / "out")


@pytest.mark.parametrize("name", ["kernel_graph_exception_dump.json", "kernel_graph_exception_check.json"])
def test_a_dump_of_failed_kernels_says_so_however_its_request_is_spelled(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(RECORDED / "graph", source)
    (source / name).write_text("{}")
    (folder,) = import_dump(source, tmp_path / "target")
    assert json.loads((folder / "dump.json").read_text())["request"] == name
