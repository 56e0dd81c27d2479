"""Finding and loading dumps: every kind of path, journals, damaged files, tensor files."""

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.core.store.journal import VERSION, encode
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.core.store.tensor_reader import read_tensor

DOCUMENT = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": {"Torch.add.0.forward": {}}}


def _dump(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps(DOCUMENT))
    return folder


def test_paths_of_every_kind(tmp_path: Path) -> None:
    for place in ("step0/rank0", "step0/rank1", "step2/proc77"):
        _dump(tmp_path / place)
    found = [(place.step, place.label) for place in find_dumps(tmp_path)]
    assert found == [(0, "rank0"), (0, "rank1"), (2, "proc77")]
    assert [place.label for place in find_dumps(tmp_path / "step0")] == ["rank0", "rank1"]
    (place,) = find_dumps(tmp_path / "step2/proc77/dump.json")
    assert (place.step, place.label) == (2, "proc77")
    with pytest.raises(ReadError, match=r"no dump\.json"):
        find_dumps(_empty(tmp_path))


def _empty(tmp_path: Path) -> Path:
    (tmp_path / "nothing").mkdir()
    return tmp_path / "nothing"


def test_a_journal_wins_and_a_cut_line_is_dropped(tmp_path: Path) -> None:
    folder = _dump(tmp_path / "step0/rank0")
    lines = [
        {"v": VERSION, "task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None},
        {"k": 0, "f": ["File a.py, line 1"]},
        {"e": "Torch.mul.0.forward", "d": {"input_args": [], "output": [None]}, "s": 0},
    ]
    pieces = [encode(line)[1] for line in lines]
    (folder / "dump.journal").write_bytes(b"".join(pieces) + b'{"e":"Torch.sub.0.forw')
    dump = load_dump(find_dumps(folder)[0])
    assert dump.recovered and list(dump.data) == ["Torch.mul.0.forward"]
    assert dump.stacks == {"Torch.mul.0.forward": ["File a.py, line 1"]}


POINT_LINES = [
    {"v": VERSION, "task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None},
    {"e": "Torch.mul.0.forward", "d": {"input_args": [], "output": [None]}},
    {"e": "loss.0.debug", "d": {"Max": 1.0}},
]


@pytest.mark.parametrize("stale", [False, True], ids=["no document yet", "an older document"])
def test_points_are_found_in_a_journal_under_the_name_of_their_document(tmp_path: Path, stale: bool) -> None:
    folder = _dump(tmp_path / "step0/rank0")
    if stale:
        (folder / "debug.json").write_text(json.dumps({**DOCUMENT, "data": {}}))
    (folder / "dump.journal").write_bytes(b"".join(encode(dict(line))[1] for line in POINT_LINES))
    points = load_dump(find_dumps(folder / "debug.json")[0])
    assert points.recovered and points.data == {"loss.0.debug": {"Max": 1.0}}
    assert list(load_dump(find_dumps(folder)[0]).data) == ["Torch.mul.0.forward"]


def test_a_journal_without_points_stands_for_no_debug_document(tmp_path: Path) -> None:
    folder = _dump(tmp_path / "step0/rank0")
    (folder / "dump.journal").write_bytes(b"".join(encode(dict(line))[1] for line in POINT_LINES[:2]))
    with pytest.raises(ReadError, match=r"debug\.json: cannot be read"):
        load_dump(find_dumps(folder / "debug.json")[0])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"task": "statistics"}', '{"data": {}}', '{"task": "t", "data": {"a": 1}}']
)
def test_damaged_documents(tmp_path: Path, text: str) -> None:
    (tmp_path / "dump.json").write_text(text)
    with pytest.raises(ReadError):
        load_dump(find_dumps(tmp_path)[0])


def test_non_finite_tokens(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text('{"task": "statistics", "data": {"a.0.debug": {"type": "x", "Max": NaN}}}')
    value = load_dump(find_dumps(tmp_path)[0]).data["a.0.debug"]["Max"]
    assert value != value


def test_npy_and_missing_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert read_tensor(tmp_path / "a.npy").tolist() == [0, 1, 2]
    for name in ("b.npy", "b.pt", "a.bin"):
        with pytest.raises(ReadError):
            read_tensor(tmp_path / name)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1/0",)


def test_a_pickle_that_calls_something_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(_Evil()))
    with pytest.raises(ReadError, match=r"builtins\.eval"):
        read_tensor(tmp_path / "a.pt")


def test_tensors_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for dtype in (
        "float32",
        "bfloat16",
        "float16",
        "int64",
        "bool",
        "uint16",
        "float8_e5m2",
        "float8_e4m3fn",
        "complex64",
    ):
        base = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
        for tensor in (base, base.t(), base[1], base[1, 2], base[0:0]):
            torch.save(tensor, tmp_path / "t.pt")
            wanted = tensor if dtype in ("int64", "bool", "uint16", "complex64", "float16") else tensor.float()
            found = read_tensor(tmp_path / "t.pt")
            assert found.shape == tuple(tensor.shape) and np.array_equal(found, wanted.numpy())
