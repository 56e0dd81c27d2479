"""``.ckpt`` files of MindSpore."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.checkpoints.load import read_checkpoint
from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.mindspore_checkpoint import is_mindspore, read_mindspore_checkpoint
from tests.core.tensor_files.encoder import message


def value(name: str, dims: list[int], kind: str, data: bytes) -> tuple[int, bytes]:
    """Return a field ``value`` of the message Checkpoint."""
    tensor = message([*((1, one) for one in dims), (2, kind.encode()), (3, data)])
    return 1, message([(1, name.encode()), (2, tensor)])


def test_values_in_several_parts(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32)
    path = tmp_path / "a.ckpt"
    parts = [value("w", [2, 3], "Float32", array[:4].tobytes()), value("w", [2, 3], "Float32", array[4:].tobytes())]
    path.write_bytes(message([*parts, value("s", [0], "Int64", np.int64(7).tobytes())]))
    assert is_mindspore(path)
    found = read_mindspore_checkpoint(path)
    assert found["w"].read().tolist() == array.reshape(2, 3).tolist()
    assert (found["s"].shape, found["s"].read().item()) == ((), 7)


@pytest.mark.parametrize("data", [b"", b"\x0a\x7fabc", b"\x12\x01a", b"\x0a\x00"])
def test_damaged(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.ckpt").write_bytes(data)
    with pytest.raises(ReadError, match=r"a\.ckpt"):
        read_mindspore_checkpoint(tmp_path / "a.ckpt")


def test_sizes_and_types_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(message([value("w", [3], "Float32", b"1234"), value("t", [1], "Str", b"a")]))
    found = read_mindspore_checkpoint(tmp_path / "a.ckpt")
    for name, reason in (("w", "do not fit shape"), ("t", "is not known")):
        with pytest.raises(ReadError, match=reason):
            found[name].read()


@pytest.mark.mindspore
def test_what_mindspore_writes(tmp_path: Path) -> None:
    import mindspore

    values = {"a.w": np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32), "n": np.arange(3)}
    listed = [{"name": name, "data": mindspore.Tensor(one)} for name, one in values.items()]
    listed.append({"name": "half", "data": mindspore.Tensor(np.ones(2), mindspore.bfloat16)})
    mindspore.save_checkpoint(listed, str(tmp_path / "a.ckpt"))
    found = read_mindspore_checkpoint(tmp_path / "a.ckpt")
    assert {name: found[name].read().tolist() for name in values} == {
        name: one.tolist() for name, one in values.items()
    }
    assert (found["half"].dtype, found["half"].read().tolist()) == ("bfloat16", [0x3F80] * 2)


_DTYPES = ("float16", "float32", "float64", "bfloat16", "complex64", "bool", "int8", "int16", "int32", "int64")
_DTYPES += ("uint8", "uint16", "uint32", "uint64")


@pytest.mark.mindspore
def test_every_type_of_mindspore(tmp_path: Path) -> None:
    import mindspore

    listed = [{"name": name, "data": mindspore.Tensor([[0, 1], [1, 3]], getattr(mindspore, name))} for name in _DTYPES]
    mindspore.save_checkpoint(listed, str(tmp_path / "a.ckpt"))
    found = read_mindspore_checkpoint(tmp_path / "a.ckpt")
    assert {name: (one.dtype, one.shape) for name, one in found.items()} == {name: (name, (2, 2)) for name in _DTYPES}
    for name in _DTYPES:
        expected = [0, 0x3F80, 0x3F80, 0x4040] if name == "bfloat16" else [0, 1, 1, name == "bool" or 3]
        assert found[name].read().reshape(-1).tolist() == expected
        assert found[name].read_range(1, 3).tolist() == expected[1:3]  # type: ignore[misc]


@pytest.mark.mindspore
def test_with_checksum_encrypted_and_with_further_values(tmp_path: Path) -> None:
    import mindspore

    net = mindspore.nn.Dense(4, 3)
    path = tmp_path / "a.ckpt"
    mindspore.save_checkpoint(net, str(path), crc_check=True)
    assert list(read_mindspore_checkpoint(path)) == ["weight", "bias"]
    damaged = bytearray(path.read_bytes())
    damaged[-30] ^= 1
    path.chmod(0o600)
    path.write_bytes(damaged)
    with pytest.raises(ReadError, match="CRC-32 does not fit"):
        read_mindspore_checkpoint(path)
    for mode in ("AES-GCM", "AES-CBC", "SM4-CBC"):
        mindspore.save_checkpoint(net, str(tmp_path / f"{mode}.ckpt"), enc_key=b"0123456789ABCDEF", enc_mode=mode)
        assert is_mindspore(tmp_path / f"{mode}.ckpt")
        with pytest.raises(ReadError, match="it is encrypted"):
            read_mindspore_checkpoint(tmp_path / f"{mode}.ckpt")
    mindspore.save_checkpoint(net, str(tmp_path / "b.ckpt"), append_dict={"epoch": 3, "name": "x"})
    whole = read_checkpoint(tmp_path / "b.ckpt")
    assert (set(whole.tensors), whole.skipped) == ({"weight", "bias", "epoch"}, ["name"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_one_error_of_ours(data: st.DataObject, tmp_path: Path) -> None:
    sound = message([value("w", [2, 3], "Float32", bytes(24)), value("s", [0], "Int64", bytes(8))])
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(1, len(sound))) :]
    (tmp_path / "a.ckpt").write_bytes(damaged)
    try:
        for tensor in read_mindspore_checkpoint(tmp_path / "a.ckpt").values():
            tensor.read()
    except ReadError as error:
        assert "a.ckpt" in str(error) and "\n" not in str(error)
