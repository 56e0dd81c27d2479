"""The zip file of a set-up: written, read, and refused where it is damaged or hostile."""

from __future__ import annotations

import contextlib
import json
import random
import zipfile
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.setup_check import pack
from msprobe.setup_check.document import SetupDocument, StepTensors, TensorFacts
from msprobe.setup_check.pack import MEMBER, read_pack, update_pack, write_pack
from tests import forked
from tests.rules.tree import ROOT

DOCUMENT = SetupDocument(
    environment={"A": "1"},
    hyperparameters={"a.sh": {"lr": 1e-3, "flag": True, "list": [1, "x"], "none": None}},
    weights=[StepTensors(step=0, rank=1, tensors={"w": TensorFacts(shape=[2], max=float("inf"), min=float("-inf"))})],
)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.zip"
    write_pack(path, DOCUMENT)
    assert read_pack(path) == DOCUMENT
    assert path.stat().st_mode & 0o077 == 0


def test_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    write_pack(tmp_path / "a.zip", DOCUMENT.model_copy(update={"weights": []}))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == [MEMBER]
        document = json.loads(archive.read(MEMBER))
    jsonschema.validate(document, json.loads((ROOT / "schemas/setup.schema.json").read_text()))


def test_an_update_sees_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    seen: list[SetupDocument | None] = []
    for number in range(2):
        update_pack(path, lambda present, number=number: seen.append(present) or SetupDocument(tool=str(number)))  # type: ignore[misc,func-returns-value]
    assert [one and one.tool for one in seen] == [None, "0"]
    path.write_bytes(b"PK damaged")
    update_pack(path, lambda present: SetupDocument(tool="new" if present is None else "old"))
    assert read_pack(path).tool == "new"


_ADD = """\
import sys
from pathlib import Path
from msprobe.setup_check.document import SetupDocument
from msprobe.setup_check.pack import update_pack
for _ in range(20):
    update_pack(Path("a.zip"), lambda present: SetupDocument(tool=(present.tool if present else "") + sys.argv[1]))
"""


def test_processes_update_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text(_ADD)
    processes = [forked.start(["add.py", letter], cwd=tmp_path) for letter in "abc"]
    assert all(process.communicate(timeout=60) for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(read_pack(tmp_path / "a.zip").tool) == sorted("abc" * 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "add.py"]  # no lock file is left


def _zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x": ""}, "no set-up in it"),
        ({MEMBER: "{"}, "damaged"),
        ({MEMBER: '{"environment": []}'}, "damaged at environment"),
        ({MEMBER: '{"name": "a"}'}, "of another program"),
        ({MEMBER: '{"format": "other"}'}, "damaged at format"),
        ({MEMBER: '{"version": 99}'}, "a later msprobe wrote it"),
        ({"env": "[]", "pip": ""}, "env is not a table"),
        ({"env": "{}", "random/rank0.json": '{"a": [{"count": "x"}]}'}, "damaged"),
        ({"env": "{}", "random/rank0.json": '{"a": [1], "b": 2}'}, "damaged"),
        ({"env": "{}", "weights/step0/rank0/weight.json": '{"a":' * 100_000}, "not readable JSON"),
    ],
)
def test_wrong_packs(tmp_path: Path, members: dict[str, str], message: str) -> None:
    with pytest.raises(ReadError, match=message):
        read_pack(_zip(tmp_path / "a.zip", members))


def test_no_zip_file(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("x")
    with pytest.raises(ReadError, match="not a readable zip file"):
        read_pack(tmp_path / "a.zip")
    with pytest.raises(ReadError, match="no such file"):
        read_pack(tmp_path / "b.zip")


def test_names_never_become_paths(tmp_path: Path) -> None:
    outside = tmp_path / "out"
    document = read_pack(_zip(tmp_path / "a.zip", {"env": "{}", "../out": "x", "hyperparameters/../../out.json": "{}"}))
    assert document.hyperparameters == {}
    assert not outside.exists()


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_LARGEST_SUM", 1000)
    with pytest.raises(ReadError, match="holds more than"):
        read_pack(_zip(tmp_path / "a.zip", {MEMBER: " " * 2000}))
    monkeypatch.undo()
    with pytest.raises(ReadError, match="unpacks to 65 MB; no set-up"):
        read_pack(_zip(tmp_path / "a.zip", {MEMBER: " " * (65 << 20)}))


def test_damaged_bytes_are_one_line(tmp_path: Path) -> None:
    """Whatever is changed in a zip file, it is read or refused."""
    whole, generator = (ROOT / "tests/golden_setup/packs/base.zip").read_bytes(), random.Random(0)
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(8):
            data[generator.randrange(len(data))] = generator.randrange(256)
        (tmp_path / "a.zip").write_bytes(data[: generator.randrange(len(data) // 2, len(data))])
        with contextlib.suppress(ReadError):
            read_pack(tmp_path / "a.zip")


def test_secrets_of_other_tools_packs_are_not_read(tmp_path: Path) -> None:
    members = {
        "env": '{"HF_TOKEN": "hunter2", "HOME": "/root", "NCCL_ALGO": "Ring"}',
        "random/rank99999999999.json": "{}",
    }
    document = read_pack(_zip(tmp_path / "a.zip", members))
    assert document.environment == {"NCCL_ALGO": "Ring"}
    assert document.random == []


def test_packs_of_the_published_tool() -> None:
    document = read_pack(ROOT / "tests/golden_setup/packs/base.zip")
    assert document.hyperparameters["hyperparameters_static.json"]["trainer.lr"] == 0.1
    assert [one.step for one in document.data] == [0, 1, 2]
    assert list(document.data[0].tensors) == ["args.0", "kwargs.mask", "kwargs.extra.ids", "kwargs.extra.l.0"]
    assert [call.function for call in document.random[0].calls] == ["torch.manual_seed", "torch.randn", "random.random"]


def test_an_update_that_fails_leaves_no_lock_file(tmp_path: Path) -> None:
    def fail(present: SetupDocument | None) -> SetupDocument:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        update_pack(tmp_path / "a.zip", fail)
    assert list(tmp_path.iterdir()) == []
