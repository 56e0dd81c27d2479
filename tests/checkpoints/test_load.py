"""One set of weights in every layout that is read."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from msprobe.checkpoints.job import compare_checkpoints
from msprobe.checkpoints.load import read_checkpoint
from msprobe.core.errors import NotComparableError, ReadError

pytestmark = pytest.mark.torch
Weights = dict[str, torch.Tensor]


def weights() -> Weights:
    torch.manual_seed(0)
    found: Weights = {"model.embed.weight": torch.randn(6, 4), "model.norm.bias": torch.randn(4, dtype=torch.float64)}
    for layer in range(3):
        found[f"model.layers.{layer}.weight"] = torch.randn(4, 4).bfloat16()
    found["model.half"] = torch.randn(3).half()
    found["model.steps"] = torch.tensor(12)
    found["model.mask"] = torch.tensor([True, False])
    found["model.empty"] = torch.zeros(0, 3)
    found["model.eight"] = torch.randn(5).to(torch.float8_e4m3fn)
    return found


def _halves() -> tuple[Weights, Weights]:
    items = list(weights().items())
    return dict(items[:4]), dict(items[4:])


def _state_dict(folder: Path) -> Path:
    torch.save(weights(), folder / "w.pt")
    return folder / "w.pt"


def _older_format(folder: Path) -> Path:
    """It cannot say float8."""
    older = {name: weight.float() if weight.itemsize == 1 else weight for name, weight in weights().items()}
    torch.save(older, folder / "w.bin", _use_new_zipfile_serialization=False)
    return folder / "w.bin"


def _training(key: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        optimizer = {"state": {0: {"exp_avg": torch.zeros(4)}}, "param_groups": [{"lr": 0.1}]}
        torch.save({key: weights(), "optimizer": optimizer, "epoch": 3}, folder / "training.pth")
        return folder / "training.pth"

    return write


def _module(folder: Path) -> Path:
    """Parameters of a module, as its state_dict has them with keep_vars."""
    parameters = {name: torch.nn.Parameter(weight, weight.is_floating_point()) for name, weight in weights().items()}
    torch.save(parameters, folder / "pytorch_model.bin")
    torch.save({}, folder / "training_args.bin")
    return folder


def _safetensors(folder: Path) -> Path:
    save_file(weights(), folder / "model.safetensors", {"format": "pt"})
    return folder


def _indexed(folder: Path) -> Path:
    files = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    weight_map = {}
    for file, part in zip(files, _halves(), strict=True):
        save_file(part, folder / file)
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _indexed_bin(folder: Path) -> Path:
    for number, part in enumerate(_halves(), 1):
        torch.save(part, folder / f"pytorch_model-0000{number}-of-00002.bin")
    weight_map = {
        name: f"pytorch_model-0000{number}-of-00002.bin" for number, part in enumerate(_halves(), 1) for name in part
    }
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def _numbered(folder: Path) -> Path:
    _indexed(folder)
    (folder / "model.safetensors.index.json").unlink()
    return folder


LAYOUTS = [
    pytest.param(_state_dict, id="state_dict"),
    pytest.param(_older_format, id="older-format"),
    pytest.param(_training("state_dict"), id="training"),
    pytest.param(_training("model"), id="training-model"),
    pytest.param(_module, id="folder-with-parameters"),
    pytest.param(_safetensors, id="safetensors"),
    pytest.param(_indexed, id="indexed"),
    pytest.param(_indexed_bin, id="indexed-bin"),
    pytest.param(_numbered, id="numbered"),
]


@pytest.mark.parametrize("write", LAYOUTS)
def test_every_layout_holds_the_same(write: Callable[[Path], Path], tmp_path: Path) -> None:
    torch.save(weights(), tmp_path / "plain.pt")
    (tmp_path / "layout").mkdir()
    found = compare_checkpoints(tmp_path / "plain.pt", write(tmp_path / "layout"))
    assert {parameter.name: parameter.kind for parameter in found.parameters} == dict.fromkeys(weights(), "equal")


def test_values_that_are_no_weights_are_counted(tmp_path: Path) -> None:
    state = {"w": torch.ones(2), "fc._extra_state": torch.zeros(3, dtype=torch.uint8), "version": 3}
    torch.save(state, tmp_path / "w.pt")
    found = read_checkpoint(tmp_path / "w.pt")
    assert (list(found.tensors), found.skipped) == (["w"], ["fc._extra_state", "version"])


def test_another_type_with_equal_values_is_told(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    torch.save({"w": torch.ones(2).bfloat16()}, tmp_path / "b.pt")
    found = compare_checkpoints(tmp_path / "a.pt", tmp_path / "b.pt")
    assert found.same and any("w: float32 against bfloat16" in line for line in found.lines())


def test_no_name_in_common_is_not_comparable(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "a.pt")
    torch.save({"b": torch.ones(2)}, tmp_path / "b.pt")
    with pytest.raises(NotComparableError, match="the first has a, the second b"):
        compare_checkpoints(tmp_path / "a.pt", tmp_path / "b.pt")


def test_a_sparse_tensor_is_a_problem_and_not_an_end(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "s": torch.eye(2).to_sparse()}, tmp_path / "a.pt")
    kinds = {one.name: one.kind for one in compare_checkpoints(tmp_path / "a.pt", tmp_path / "a.pt").parameters}
    assert kinds == {"w": "equal", "s": "problem"}


def _header(content: Any, data: bytes = b"") -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "cut off", id="empty"),
        pytest.param(b"\x00" * 7, "cut off", id="seven-bytes"),
        pytest.param(struct.pack("<Q", 1 << 60), "would be 1152921504606846976 bytes", id="a-huge-header"),
        pytest.param(struct.pack("<Q", 4) + b"{{{{", "header cannot be read", id="no-json"),
        pytest.param(
            struct.pack("<Q", 80) + b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}}'.ljust(80),
            "'w' is in it twice",
            id="twice",
        ),
        pytest.param(struct.pack("<Q", 6) + b"[" * 6, "header cannot be read", id="open-lists"),
        pytest.param(_header([1]), "not a JSON object", id="no-object"),
        pytest.param(_header({"w": {"dtype": "F32", "shape": [2]}}), "says of 'w'", id="no-offsets"),
        pytest.param(
            _header({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}), "says of 'w'", id="minus"
        ),
        pytest.param(
            _header({"w": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}), "says of 'w'", id="bool"
        ),
        pytest.param(
            _header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\x00" * 4), "cut off", id="cut-off"
        ),
        pytest.param(
            _header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"\x00" * 8),
            "cut off",
            id="too-small",
        ),
    ],
)
def test_damaged_safetensors(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(ReadError, match=message):
        read_checkpoint(tmp_path / "w.safetensors")


def test_an_unknown_element_type_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(
        _header({"w": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}, b"1")
    )
    (parameter,) = compare_checkpoints(tmp_path / "w.safetensors", tmp_path / "w.safetensors").parameters
    assert parameter.kind == "problem" and "F4" in parameter.similarity.problem


@pytest.mark.parametrize(
    ("index", "message"),
    [
        pytest.param("{", "not valid JSON", id="no-json"),
        pytest.param("[]", "weight_map", id="no-object"),
        pytest.param('{"weight_map": {}}', "weight_map", id="empty"),
        pytest.param('{"weight_map": {"w": "../w.safetensors"}}', "does not name a file", id="outside"),
        pytest.param('{"weight_map": {"w": 3}}', "does not name a file", id="no-text"),
        pytest.param('{"weight_map": {"w": "gone.safetensors"}}', "gone.safetensors", id="missing-shard"),
        pytest.param('{"weight_map": {"gone": "model.safetensors"}}', "gone is missing", id="missing-tensor"),
    ],
)
def test_damaged_index(index: str, message: str, tmp_path: Path) -> None:
    _safetensors(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ReadError, match=message):
        read_checkpoint(tmp_path)


def _several(folder: Path) -> None:
    torch.save({}, folder / "a.pt")
    torch.save({}, folder / "b.pt")


def _part_missing(folder: Path) -> None:
    _numbered(folder)
    save_file({"w": torch.ones(1)}, folder / "model-00001-of-00003.safetensors")
    for number in (1, 2):
        (folder / f"model-0000{number}-of-00002.safetensors").rename(
            folder / f"model-0000{number}-of-00003.safetensors"
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda folder: None, "found: nothing", id="empty"),
        pytest.param(lambda folder: (folder / "readme.md").write_text(""), "found: readme.md", id="other-files"),
        pytest.param(_several, "several checkpoints", id="several"),
        pytest.param(_part_missing, "part 3 is missing", id="a-part-is-missing"),
        pytest.param(lambda folder: (folder / "__0_0.distcp").write_text(""), "without .metadata", id="distributed"),
        pytest.param(lambda folder: (folder / "model.pt").write_bytes(b"no"), "model.pt", id="no-torch-file"),
        pytest.param(lambda folder: torch.save([1], folder / "w.pt"), "it holds a list", id="a-list"),
        pytest.param(lambda folder: torch.save(torch.ones(1), folder / "w.pt"), "it holds one tensor", id="a-tensor"),
        pytest.param(lambda folder: torch.save({"a": 1}, folder / "w.pt"), "no tensors", id="no-tensors"),
    ],
)
def test_folders_without_one_checkpoint(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ReadError, match=message):
        read_checkpoint(tmp_path)


def test_other_paths(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no such file or folder"):
        read_checkpoint(tmp_path / "nothing")
    (tmp_path / "w.npz").write_text("")
    with pytest.raises(ReadError, match="files that can be read end in"):
        read_checkpoint(tmp_path / "w.npz")
