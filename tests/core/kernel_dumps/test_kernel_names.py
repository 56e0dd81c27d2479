"""The grammar of the runtime's file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.core.kernel_dumps.kernel_names import entry_stem, flat, parse_file, read_mapping


def test_a_name_says_what_is_inside() -> None:
    name = "MatMul.Default_fc1-Dense_MatMul-op0.3.4.1795238291770896.output.1.DefaultFormat.Float32.npy"
    file = parse_file(Path(name))
    assert file is not None
    assert (file.op, file.name, file.task, file.stream) == ("MatMul", "Default_fc1-Dense_MatMul-op0", 3, 4)
    assert (file.time, file.side, file.slot, file.dtype) == (1795238291770896, "output", 1, "Float32")


def test_older_runtimes_write_no_dtype() -> None:
    file = parse_file(Path("Conv2D.Default_conv-op1.2.7.161243956333802.input.0.NCHW.npy"))
    assert file is not None and file.dtype == "" and file.slot == 0


@pytest.mark.parametrize("name", ["statistic.csv", "x.npy", "Add.a.0.0.1.input.0.DefaultFormat.bin", "Add.a.b.c.d.npy"])
def test_other_files_are_no_kernels(name: str) -> None:
    assert parse_file(Path(name)) is None


def test_a_name_that_was_too_long_is_looked_up(tmp_path: Path) -> None:
    long = "Add." + "scope_" * 60 + "Add-op0.0.0.12.output.0.DefaultFormat.Float16"
    (tmp_path / "mapping.csv").write_text(f"4711,{long}\n")
    file = parse_file(tmp_path / "4711.npy", read_mapping(tmp_path))
    assert file is not None and file.op == "Add" and file.name.endswith("scope_Add-op0")


def test_flat_is_how_a_full_name_stands_in_a_file() -> None:
    assert flat("Default/fc1-Dense/MatMul-op0") == "Default_fc1-Dense_MatMul-op0"
    assert flat("fc1.weight") == "fc1_weight"


def test_a_kernel_without_a_name_has_that_of_its_operator() -> None:
    assert entry_stem("", "MatMul") == ("Kernel.MatMul", "forward")
