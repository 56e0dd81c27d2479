"""Tensor files: every kind torch writes reads back; a damaged one is a ReadError, never another exception."""

import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import read_tensor

torch = pytest.importorskip("torch")

TENSORS = {
    "empty": torch.empty(0, 3),
    "scalar": torch.tensor(3.5),
    "bfloat16": torch.linspace(-2, 2, 35).reshape(5, 7).bfloat16(),
    "transposed": torch.arange(48.0).reshape(6, 8).t(),
    "slice": torch.arange(10)[3:7],
    "complex": torch.complex(torch.ones(3), torch.arange(3.0)),
    "parameter": torch.nn.Parameter(torch.ones(3)),
    "bool": torch.tensor([True, False]),
    "float8": torch.tensor([0.5, -3.0]).to(torch.float8_e5m2),
}


@pytest.mark.parametrize("name", TENSORS)
def test_round_trip(tmp_path: Path, name: str) -> None:
    saved = TENSORS[name].detach()
    torch.save(TENSORS[name], tmp_path / "x.pt")
    wanted = (saved.float() if name in ("bfloat16", "float8") else saved).numpy()
    found = read_tensor(tmp_path / "x.pt")
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


def test_a_compressed_archive_reads_too(tmp_path: Path) -> None:
    torch.save(torch.arange(6.0), tmp_path / "x.pt")
    with (
        zipfile.ZipFile(tmp_path / "x.pt") as old,
        zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    np.testing.assert_array_equal(read_tensor(tmp_path / "y.pt"), np.arange(6.0))


@pytest.mark.parametrize("content", [b"", b"junk" * 20, b"PK\x05\x06" + b"\xff" * 18, b"PK\x05\x06" + b"\0" * 18])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(ReadError, match="not a readable tensor file"):
        read_tensor(tmp_path / "x.pt")


def test_anything_but_one_tensor_is_refused(tmp_path: Path) -> None:
    torch.save({"a": 1}, tmp_path / "x.pt")
    with pytest.raises(ReadError, match="exactly one tensor"):
        read_tensor(tmp_path / "x.pt")


def test_damage_is_a_read_error_or_another_value(tmp_path: Path) -> None:
    torch.save(torch.arange(6.0), tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    generator = random.Random(1)
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole[: generator.choice([len(whole), generator.randrange(len(whole))])])
        for _ in range(min(3, len(damaged))):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        (tmp_path / "y.pt").write_bytes(damaged)
        try:
            read_tensor(tmp_path / "y.pt")
        except ReadError:
            refused += 1
    assert refused > 150
