"""A mapping file that cannot be used is refused whole, with line and key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.alignment.api_mapping import api_mapping
from msprobe.compare.alignment.by_name import ExactMatch
from msprobe.compare.alignment.cell_mapping import cell_mapping
from msprobe.compare.alignment.data_mapping import data_mapping
from msprobe.compare.alignment.layer_mapping import layer_mapping
from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.core.errors import ReadError


def _data(given: Any) -> object:
    return data_mapping(given, ExactMatch())


BAD = {
    "not-yaml": (cell_mapping, "a: b\nc: [1,\n", r"line 3: no valid YAML"),
    "tab": (cell_mapping, "a:\n\t- b\n", r"line 2: no valid YAML"),
    "twice": (cell_mapping, "a: b\nc: d\na: e\n", r"line 3: 'a' is there already, in line 1"),
    "list-for-table": (cell_mapping, "- a\n- b\n", r"line 1: a cell mapping is written as"),
    "no-value": (cell_mapping, "a: b\nfc1.Linear:\n", r"line 2: the cell for 'fc1.Linear' is a name, not nothing"),
    "table-for-name": (cell_mapping, "a:\n  b: c\n", r"line 2: the cell for 'a' is a name, not a table"),
    "key-is-a-list": (cell_mapping, "? [a, b]\n: c\n", r"line 1: a key is a name"),
    "api-is-a-table": (api_mapping, "ms_api: a\n", r"line 1: an api mapping is a list"),
    "api-without-pt": (api_mapping, "- ms_api: Mint.a\n", r"line 1: the entry has no 'pt_api'"),
    "api-unknown-key": (api_mapping, "- ms_api: a\n  pt_api: b\n  ms_arg: [0]\n", r"line 3: unknown key 'ms_arg'"),
    "api-lengths": (
        api_mapping,
        "- ms_api: a\n  pt_api: b\n  ms_outputs: [0, 1]\n  pt_outputs: [0]\n",
        r"line 4: ms_output lists 2 places and pt_output 1",
    ),
    "api-one-list": (
        api_mapping,
        "- ms_api: a\n  pt_api: b\n  ms_args: [0]\n",
        r"ms_args lists 1 places and pt_args 0",
    ),
    "api-place-twice": (
        api_mapping,
        "- {ms_api: a, pt_api: b, ms_args: [0, 0], pt_args: [0, 1]}",
        "lists a place twice",
    ),
    "api-twice": (api_mapping, "- {ms_api: a, pt_api: b}\n- {ms_api: a, pt_api: c}\n", r"line 2: 'a' is there already"),
    "data-nested": (_data, "a:\n  b: c\n", r"line 2: the item for 'a' is a name, not a table"),
    "layer-flat": (layer_mapping, "TopLayer: module\n", r"line 1: the section 'TopLayer' is written as"),
    "layer-no-name": (layer_mapping, "A:\n  x: y\n  fc:\n", r"line 3: the name for 'fc' is a name, not nothing"),
}


@pytest.mark.parametrize(("read", "text", "said"), BAD.values(), ids=BAD)
def test_the_line_is_named(read: Callable[[Any], object], text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(text)
    with pytest.raises(ReadError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_the_key_is_named_where_there_are_no_lines() -> None:
    with pytest.raises(ReadError, match=r"cell mapping, key 'fc1': the cell for 'fc1' is a name, not a table"):
        cell_mapping({"fc1": {"a": "b"}})


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None], ids=["bytes", "missing"])
def test_a_file_that_cannot_be_read(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ReadError, match=r"mapping\.yaml: the cell mapping"):
        cell_mapping(path)


def test_anchors_repeat_a_part_without_growing(tmp_path: Path) -> None:
    path = tmp_path / "layers.yaml"
    path.write_text("A: &a\n  attn: attention\nB: *a\n")
    assert len(layer_mapping(path).sections) == 2
    path.write_text("A: &a\n  x: *a\n")
    with pytest.raises(ReadError, match=r"line \d"):
        layer_mapping(path)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path.write_text("\n".join(lines))
    with pytest.raises(ReadError, match=r"line \d: no valid YAML \(its aliases .* stand for more than 100000 values"):
        cell_mapping(path)


def test_no_object_is_made_from_a_tag(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("a: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(ReadError):
        cell_mapping(path)


def test_scalars_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("on: 1.0\n0: yes\nx: '~'\n")
    table = read_mapping(path, "cell").table("a mapping")
    assert {key: value.value for key, value in table.items()} == {"on": "1.0", "0": "yes", "x": "~"}


def test_an_empty_file_maps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("# nothing yet\n")
    assert not cell_mapping(path).rules
    assert not layer_mapping(path).sections
