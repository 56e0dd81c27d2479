"""Tensor files of kernels become files of numpy, torch and safetensors."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.npu_layouts import to_blocks
from msprobe.kernel_parse.convert import parse_files
from msprobe.kernel_parse.read import read_file
from tests.core.store.full_disk import files_of_at_most
from tests.core.tensor_files.files import Tensor, acl_file, atb_file, bfloat16

ACL = "MatMul.matmul.1.2.1700000000000000"
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A folder with a file of ATB in bfloat16, and one of ACL below it."""
    folder = tmp_path / "dump"
    (folder / "below").mkdir(parents=True)
    (folder / "a.bin").write_bytes(atb_file(Tensor(bfloat16(VALUES), 27)))
    (folder / "below" / ACL).write_bytes(acl_file([Tensor(VALUES, 1)], [Tensor(VALUES, 1)]))
    return folder


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["npy", "pt", "safetensors"])
def test_kinds(dump: Path, tmp_path: Path, kind: str) -> None:
    result = parse_files(dump, tmp_path / "out", kind, recursive=True)  # type: ignore[arg-type]
    names = sorted(path.relative_to(tmp_path / "out").as_posix() for path in result.written)
    assert names == [f"a.{kind}", f"below/{ACL}.input.0.{kind}", f"below/{ACL}.output.0.{kind}"]
    assert result.problems == []
    for path in result.written:
        (tensor,) = read_file(path)
        assert tensor.values().tolist() == VALUES.tolist()
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["npy", "pt", "safetensors"])
def test_a_full_disk_is_an_error_of_the_system_that_names_the_file(dump: Path, tmp_path: Path, kind: str) -> None:
    with files_of_at_most(40), pytest.raises(OSError) as full:
        parse_files(dump / "a.bin", tmp_path / "out", kind)  # type: ignore[arg-type]
    assert str(tmp_path / "out" / f"a.{kind}") in str(full.value)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.torch
def test_types_stay(dump: Path, tmp_path: Path) -> None:
    import torch

    (written,) = parse_files(dump / "a.bin", tmp_path / "out").written
    assert torch.load(written, weights_only=True).dtype == torch.bfloat16


def test_one_damaged_file_does_not_stop_the_others(dump: Path, tmp_path: Path) -> None:
    (dump / "bad").write_bytes(b"no tensor")
    result = parse_files(dump, tmp_path / "out", "npy")
    assert len(result.written) == 1
    assert len(result.problems) == 1 and "its format is not known" in result.problems[0]
    with pytest.raises(ReadError, match="its format is not known"):
        parse_files(dump / "bad", tmp_path / "out", "npy")
    with pytest.raises(ReadError, match="no such file or folder"):
        parse_files(dump / "absent", tmp_path / "out", "npy")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match="--recursive looks into its folders"):
        parse_files(tmp_path / "empty", tmp_path / "out", "npy")


def test_safetensors_of_several_files(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    (tmp_path / "in").mkdir()
    for number, file in enumerate(("rank0", "rank1")):
        save_file({"w.x": VALUES + number, "b": VALUES}, tmp_path / "in" / f"{file}.safetensors")
    result = parse_files(tmp_path / "in", tmp_path / "out", "npy")
    assert sorted(path.name for path in result.written) == [f"rank{n}.{w}.npy" for n in (0, 1) for w in ("b", "w.x")]
    assert np.load(tmp_path / "out" / "rank1.w.x.npy").tolist() == (VALUES + 1).tolist()
    save_file({"layer": VALUES}, tmp_path / "one.safetensors")
    (written,) = parse_files(tmp_path / "one.safetensors", tmp_path / "out", "npy").written
    assert written.name == "one.layer.npy"


def test_names_do_not_leave_the_folder(tmp_path: Path) -> None:
    from msprobe.core.store.layout import file_name

    assert "/" not in file_name("../../x", ".npy")


def test_files_of_one_stem_do_not_replace_each_other(dump: Path, tmp_path: Path) -> None:
    np.save(dump / "a.npy", VALUES + 1)
    result = parse_files(dump, tmp_path / "out", "npy")
    assert [path.name for path in result.written] == ["a.npy", "a.npy.npy"]
    assert np.load(tmp_path / "out" / "a.npy").tolist() == VALUES.tolist()
    before = (dump / "a.npy").read_bytes()
    parse_files(dump, dump, "npy")
    assert (dump / "a.npy").read_bytes() == before  # a file that is read is never replaced
    assert (dump / "a.bin.npy").exists()


def test_results_inside_the_input_are_not_read_again(dump: Path) -> None:
    first = parse_files(dump, dump / "out", "npy", recursive=True)
    second = parse_files(dump, dump / "out", "npy", recursive=True)
    assert first.written == second.written and len(first.written) == 3


def test_one_tensor_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ACL).write_bytes(acl_file([Tensor(VALUES, 13)], [Tensor(VALUES, 1)]))
    result = parse_files(tmp_path / ACL, tmp_path / "out", "npy")
    assert [path.name for path in result.written] == [f"{ACL}.output.0.npy"]
    assert result.problems == [f"{tmp_path / ACL}: input.0: data type 13 cannot be read"]


def test_layouts_of_mindspore_files(tmp_path: Path) -> None:
    values = np.arange(32 * 16, dtype=np.float16).reshape(32, 16)
    stem = "MatMul.Default_fc-op0.0.0.1795238291770896.output.0"
    np.save(tmp_path / f"{stem}.FRACTAL_NZ.Float16.npy", to_blocks(values, "FRACTAL_NZ"))
    np.save(tmp_path / f"{stem}.DefaultFormat.Float16.npy", values)
    for path in tmp_path.iterdir():
        (tensor,) = read_file(path)
        assert tensor.values().tolist() == values.tolist()
    np.save(tmp_path / "x.NC1HWC0.npy", values)
    with pytest.raises(ReadError, match="none of NC1HWC0"):
        read_file(tmp_path / "x.NC1HWC0.npy")[0].values()


def test_links_and_pipes(dump: Path, tmp_path: Path) -> None:
    os.mkfifo(dump / "pipe")
    (dump / "loop").symlink_to(dump, target_is_directory=True)
    (dump / "linked.bin").symlink_to(dump / "a.bin")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "below").symlink_to(tmp_path)
    result = parse_files(dump, tmp_path / "out", "npy", recursive=True)
    assert len(result.written) == 4 and result.problems == []
    assert not (tmp_path / f"{ACL}.input.0.npy").exists()


def test_thousands_of_files(tmp_path: Path) -> None:
    data = atb_file(Tensor(VALUES, 0))
    (tmp_path / "dump").mkdir()
    for number in range(3000):
        (tmp_path / "dump" / f"{number}_inTensor.bin").write_bytes(data if number % 2 else b"$Version")
    begin = time.process_time()
    result = parse_files(tmp_path / "dump", tmp_path / "out", "npy")
    assert (len(result.written), len(result.problems)) == (1500, 1500)
    assert time.process_time() - begin < 20
