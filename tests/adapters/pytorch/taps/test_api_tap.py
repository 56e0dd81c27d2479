"""APIs from the user's own list and all operators of a namespace."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.core.errors import ConfigError, FileCheckException
from tests.fresh_debugger import forget
from tests.integrations.conftest import Bench

pytestmark = pytest.mark.torch


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    module = types.ModuleType("user_kernels")
    module.fused = lambda x: x + 1  # type: ignore[attr-defined]

    class Norm:
        @staticmethod
        def apply(x: torch.Tensor) -> torch.Tensor:
            return x * 2

    module.Norm = Norm  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "user_kernels", module)
    forget()
    yield Bench(tmp_path)
    forget()


def record(lists: Bench, body: Any, **fields: Any) -> list[str]:
    from msprobe.pytorch import PrecisionDebugger

    debugger = PrecisionDebugger(lists.config(level="L1", **fields))
    debugger.start()
    body()
    debugger.stop()
    return list(lists.entries("step0/proc"))


def call() -> None:
    import user_kernels  # type: ignore[import-not-found]

    user_kernels.Norm.apply(user_kernels.fused(torch.ones(2)))


EXPECTED = ["user_kernels.fused.0.forward", "user_kernels.Norm.apply.0.forward"]


def test_a_list_in_the_configuration(lists: Bench) -> None:
    assert record(lists, call, custom_apis={"user_kernels": ["fused", "Norm.apply"]}) == EXPECTED


def test_a_list_in_a_file_of_the_user(lists: Bench) -> None:
    path = lists.folder / "apis.yaml"
    path.write_text("user_kernels:\n  - fused\n  - Norm.apply\n")
    assert record(lists, call, custom_apis=str(path)) == EXPECTED


def test_a_class_can_be_the_owner(lists: Bench) -> None:
    assert record(lists, call, custom_apis={"user_kernels.Norm": ["apply"]})[-1] == EXPECTED[1]


def test_what_is_not_there_is_told_once(lists: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    names = record(lists, call, custom_apis={"user_kernels": ["absent_kernel"], "no_such_module": ["f"]})
    assert not any("absent_kernel" in name for name in names)
    out = capsys.readouterr().out
    assert "user_kernels has no function absent_kernel" in out
    assert "no_such_module has no function f" in out


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        pytest.param("user_kernels: fused\n", 'user_kernels: got "fused"; must be a list of API names', id="text"),
        pytest.param("user_kernels: [1]\n", "user_kernels: got [1]; must be a list of API names", id="number"),
        pytest.param("user kernels: [fused]\n", "must be the full name of a module or class", id="name"),
        pytest.param("", 'the file is empty; write at least {"package.module": ["function"]}', id="empty"),
        pytest.param("- fused\n", 'must be an object { }, such as {"package.module": ["function"]}', id="list"),
        pytest.param("a: [b\n", "not valid YAML at line", id="no-yaml"),
    ],
)
def test_a_wrong_file_is_refused(text: str, remedy: str, lists: Bench) -> None:
    path = lists.folder / "apis.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        record(lists, call, custom_apis=str(path))
    assert caught.value.code == 0
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"[msprobe] Invalid parameter: {path}: ")
    assert remedy in line


def test_a_file_that_is_not_there_is_refused(lists: Bench) -> None:
    with pytest.raises(FileCheckException, match=r'custom_apis: got "absent\.yaml"; there is no such file') as caught:
        record(lists, call, custom_apis="absent.yaml")
    assert caught.value.code == FileCheckException.ILLEGAL_PATH_ERROR


def test_a_namespace_without_operators_is_told(lists: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    record(lists, call, custom_op_namespaces=["_C_ascend", "no_such_ops"])
    out = capsys.readouterr().out
    assert out.count("custom_op_namespaces: torch.ops.no_such_ops has no operators (yet)") == 1
    assert "_C_ascend" not in out  # the default, which is there on NPU only


def test_operators_of_a_namespace(lists: Bench) -> None:
    library = torch.library.Library("msprobe_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    original = torch.ops.msprobe_tests.twice
    names = record(lists, lambda: torch.ops.msprobe_tests.twice(torch.ones(2)), custom_op_namespaces=["msprobe_tests"])
    assert names == ["msprobe_tests.twice.0.forward"]
    assert torch.ops.msprobe_tests.twice is original


def test_an_overload_of_a_recorded_operator_can_still_be_called(lists: Bench) -> None:
    library = torch.library.Library("msprobe_tests2", "FRAGMENT")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
    results: list[torch.Tensor] = []
    record(
        lists,
        lambda: results.append(torch.ops.msprobe_tests2.thrice.default(torch.ones(2))),
        custom_op_namespaces=["msprobe_tests2"],
    )
    assert results[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("layer", "name"),
    [(torch.nn.LSTM, "lstm"), (torch.nn.GRU, "gru"), (torch.nn.RNN, "rnn_tanh")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_inside_of_recurrent_layers(lists: Bench, layer: Any, name: str) -> None:
    recorded = record(lists, lambda: layer(2, 2)(torch.ones(3, 1, 2)))
    assert f"VF.{name}.0.forward" in recorded


def test_a_recurrent_cell_when_it_is_asked_for(lists: Bench) -> None:
    recorded = record(
        lists, lambda: torch.nn.LSTMCell(2, 2)(torch.ones(1, 2)), custom_apis={"torch._VF": ["lstm_cell"]}
    )
    assert "torch._VF.lstm_cell.0.forward" in recorded
