"""Every argument the public functions refuse: the class and code of the error, and one line that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end, random_save, seed_all
from tests.adapters.bench import Bench

pytestmark = pytest.mark.torch

Call = Callable[[Any], Any]


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2))


def refused(call: Call, debugger: Any, code: int, said: str) -> None:
    with pytest.raises(MsprobeException) as caught:
        call(debugger)
    assert type(caught.value) is MsprobeException
    assert caught.value.code == code
    assert said in caught.value.error_info
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: PrecisionDebugger.start(), id="start"),
        pytest.param(lambda: PrecisionDebugger.stop(), id="stop"),
        pytest.param(lambda: PrecisionDebugger.step(), id="step"),
        pytest.param(lambda: PrecisionDebugger.save(1, "x"), id="save"),
        pytest.param(lambda: PrecisionDebugger.set_init_step(1), id="set_init_step"),
        pytest.param(lambda: PrecisionDebugger.register_custom_api(math, "sqrt"), id="register_custom_api"),
        pytest.param(lambda: PrecisionDebugger.restore_custom_api(math, "sqrt"), id="restore_custom_api"),
        pytest.param(lambda: module_dump(net(), "x"), id="module_dump"),
        pytest.param(lambda: module_dump_end(), id="module_dump_end"),
    ],
)
def test_before_there_is_a_debugger(call: Callable[[], Any], bench: Bench) -> None:
    bench.close()
    refused(lambda _: call(), None, 3, "call PrecisionDebugger(...) first")


class Frozen:
    """Lets nothing be set."""

    __slots__ = ()

    def method(self) -> int:
        return 1


PAIR, INTEGER = "token_range must be a list or tuple of two integers", "must be an integer"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(lambda d: d.start(net(), token_range="ab"), PAIR, id="token_range text"),
        pytest.param(lambda d: d.start(net(), token_range={1, 2}), PAIR, id="token_range set"),
        pytest.param(lambda d: d.start(net(), token_range=[1]), PAIR, id="token_range of one"),
        pytest.param(lambda d: d.start(net(), token_range=[1, 2, 3]), PAIR, id="token_range of three"),
        pytest.param(lambda d: d.start(net(), token_range=[1.0, 2]), "must hold two integers", id="token_range float"),
        pytest.param(lambda d: d.start(net(), token_range=[True, 2]), "must hold two integers", id="token_range bool"),
        pytest.param(lambda d: d.start(net(), token_range=[3, 1]), "0 <= first <= last", id="token_range turned"),
        pytest.param(lambda d: d.start(net(), token_range=[-1, 1]), "0 <= first <= last", id="token_range negative"),
        pytest.param(lambda d: d.start(token_range=[0, 1]), "start(model=...", id="token_range without model"),
        pytest.param(lambda d: d.start(rank_id="1"), f"rank_id {INTEGER}", id="rank_id text"),
        pytest.param(lambda d: d.start(rank_id=1.0), f"rank_id {INTEGER}", id="rank_id float"),
        pytest.param(lambda d: d.start(rank_id=True), f"rank_id {INTEGER}", id="rank_id bool"),
        pytest.param(
            lambda d: d.start(rank_id=-1), "rank_id must be greater than or equal to 0", id="rank_id negative"
        ),
        pytest.param(lambda d: d.start(scheduled_tokens=[1]), "a dict from request id", id="scheduled_tokens list"),
        pytest.param(lambda d: d.start(scheduled_tokens={"a": "b"}), "token counts", id="scheduled_tokens text"),
        pytest.param(lambda d: d.start(scheduled_tokens={1: 1}), "request ids (str)", id="scheduled_tokens key"),
        pytest.param(lambda d: d.set_init_step("1"), f"step {INTEGER}", id="set_init_step text"),
        pytest.param(lambda d: d.set_init_step(None), f"step {INTEGER}", id="set_init_step None"),
        pytest.param(
            lambda d: d.set_init_step(-1), "step must be greater than or equal to 0", id="set_init_step negative"
        ),
        pytest.param(lambda d: d.register_custom_api(math, "sqrt", 5), "api_prefix is a str", id="prefix"),
        pytest.param(lambda d: d.register_custom_api(math, "nope"), "math has no function 'nope'", id="no such api"),
        pytest.param(lambda d: d.register_custom_api(math, "pi"), "math has no function 'pi'", id="api not callable"),
        pytest.param(lambda d: d.register_custom_api(math, 5), "math has no function 5", id="api not text"),
        pytest.param(
            lambda d: d.register_custom_api(int, "bit_length"), "lets no function be replaced", id="builtin type"
        ),
        pytest.param(lambda d: d.register_custom_api(Frozen(), "method"), "lets no function be replaced", id="slots"),
        pytest.param(lambda d: module_dump(5, "x"), "expected a torch.nn.Module, got int", id="module_dump module"),
        pytest.param(lambda d: module_dump(net(), 5), "non-empty str", id="module_dump name"),
        pytest.param(lambda d: module_dump(net(), ""), "non-empty str", id="module_dump empty name"),
        pytest.param(lambda d: seed_all("1"), "seed is an integer from 0", id="seed text"),
        pytest.param(lambda d: seed_all(1.0), "seed is an integer from 0", id="seed float"),
        pytest.param(lambda d: seed_all(True), "seed is an integer from 0", id="seed bool"),
        pytest.param(lambda d: seed_all(-1), "seed is an integer from 0", id="seed negative"),
        pytest.param(lambda d: seed_all(2**32), "to 4294967295", id="seed large"),
        pytest.param(lambda d: seed_all(mode=1), "mode is True or False", id="mode"),
        pytest.param(lambda d: seed_all(rm_dropout="a"), "rm_dropout is True or False", id="rm_dropout"),
        pytest.param(lambda d: seed_all(is_enhanced=None), "is_enhanced is True or False", id="is_enhanced"),
        pytest.param(lambda d: random_save(5), "output_path is a non-empty str", id="random_save number"),
        pytest.param(lambda d: random_save(None), "output_path is a non-empty str", id="random_save None"),
    ],
)
def test_refused(call: Call, said: str, bench: Bench) -> None:
    debugger = bench.open()
    refused(call, debugger, 0, said)
    debugger.start()  # and nothing is broken
    torch.tanh(torch.ones(2))
    debugger.stop()
    assert bench.read().names("tanh") == ["Torch.tanh.0.forward"]


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize(
    ("model", "said"),
    [
        pytest.param(lambda: None, "needs the model: call start(model=...)", id="none"),
        pytest.param(lambda: 5, "got int", id="number"),
        pytest.param(lambda: "model", "got str", id="text"),
        pytest.param(lambda: {"a": net()}, "got dict", id="dict"),
        pytest.param(lambda: torch.nn.Linear, "got type", id="class"),
        pytest.param(lambda: [net(), 5], "got int at position 1", id="wrong element"),
        pytest.param(lambda: (net(), None), "got NoneType at position 1", id="None element"),
        pytest.param(list, "the list of models is empty", id="empty list"),
        pytest.param(lambda: torch.jit.trace(net(), torch.ones(2)), "a ScriptModule runs outside Python", id="script"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_model_refused(level: str, model: Callable[[], Any], said: str, bench: Bench) -> None:
    refused(lambda debugger: debugger.start(model()), bench.open(level), 0, said)
    assert bench.steps() == []


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_the_model_of_an_earlier_start_does_not_count(level: str, bench: Bench) -> None:
    debugger = bench.open(level)
    debugger.start(net())
    debugger.stop()
    refused(lambda it: it.start(), debugger, 0, "needs the model")


def test_at_l1_the_model_is_not_looked_at(bench: Bench) -> None:
    debugger = bench.open("L1")
    debugger.start(5)
    torch.tanh(torch.ones(2))
    debugger.stop()
    assert bench.read().names() == ["Torch.tanh.0.forward"]


def test_restoring_what_was_never_registered_says_nothing(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open()
    capsys.readouterr()
    for module, api in ((math, "sqrt"), (None, "x"), (math, 5)):
        debugger.restore_custom_api(module, api)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param((1, 5), "name is a non-empty str, got 5", id="name"),
        pytest.param((1, ""), "name is a non-empty str", id="empty name"),
        pytest.param((1, "x", "yes"), "save_backward is True or False, got 'yes'", id="save_backward"),
        pytest.param((None, "x"), "variable is NoneType", id="None"),
        pytest.param(({"a": [1, None]}, "x"), "variable['a'][1] is NoneType", id="None inside"),
        pytest.param(({1: 1}, "x"), "variable has the key 1; keys are str", id="key"),
        pytest.param((object(), "x"), "variable is object; tensors, int, float, str, bool", id="object"),
        pytest.param(({1, 2}, "x"), "variable is set", id="set"),
        pytest.param((1j, "x"), "variable is complex", id="complex"),
    ],
)
def test_save_ignores_with_a_warning(
    arguments: tuple[Any, ...], said: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    debugger = bench.open("debug")
    capsys.readouterr()
    debugger.save(*arguments)
    (line,) = capsys.readouterr().out.splitlines()
    assert "[WARNING]" in line
    assert said in line
    assert line.endswith("nothing is saved")


@pytest.mark.parametrize("name", ["start", "stop", "step"])
def test_an_argument_that_does_not_exist_is_a_type_error(name: str, bench: Bench) -> None:
    with pytest.raises(TypeError):
        getattr(bench.open(), name)(1, 2, 3, 4, 5, 6)


def test_a_fault_of_the_tool_itself_is_one_line_and_leaves_nothing_wrapped(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """An owner that lets itself be patched once and then no more stands for anything nobody has thought of."""

    class Owner(SimpleNamespace):
        def __setattr__(self, name: str, value: Any) -> None:
            if self.closed:
                raise ValueError("closed")
            super().__setattr__(name, value)

    owner = Owner.__new__(Owner)
    vars(owner).update(closed=False, call=lambda: 1)
    tanh = torch.tanh
    debugger = bench.open()
    debugger.register_custom_api(owner, "call", "Own")
    vars(owner)["closed"] = True
    capsys.readouterr()
    debugger.start()
    assert torch.tanh is tanh
    assert torch.tanh(torch.zeros(1)).item() == 0
    debugger.stop()
    errors = [line for line in capsys.readouterr().out.splitlines() if "[ERROR]" in line]
    assert len(errors) == 1
    assert "start failed: ValueError: closed (the run goes on" in errors[0]
