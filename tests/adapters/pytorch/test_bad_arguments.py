"""Every argument the public functions refuse: the class and code of the error, and one line that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from msprobe.core import SingleSave
from msprobe.core.errors import FileCheckException, MsprobeException
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end, random_save, seed_all
from tests.adapters.bench import Bench

pytestmark = pytest.mark.torch

Call = Callable[[Any], Any]


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2))


def refused(call: Call, debugger: Any, code: int, *said: str) -> None:
    """``call`` raises a MsprobeException of this code with one line that says all this."""
    with pytest.raises(MsprobeException) as caught:
        call(debugger)
    assert type(caught.value) is MsprobeException
    assert caught.value.code == code
    assert [text for text in said if text not in caught.value.error_info] == []
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
    refused(lambda _: call(), None, 3, "PrecisionDebugger instance is not created", "call PrecisionDebugger(...) first")


class Frozen:
    """Lets nothing be set."""

    __slots__ = ()

    def method(self) -> int:
        return 1


class Refusing:
    """Says no in its own way."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"{name}\nis mine")

    def method(self) -> int:
        return 1


class Row(NamedTuple):
    """One wrong call: the argument that is wrong, what to do, and an id."""

    call: Call
    argument: str
    remedy: str
    id: str


def token_range(value: Any, remedy: str) -> Row:
    return Row(lambda d: d.start(net(), token_range=value), "token_range", remedy, f"token_range={value!r:.12}")


def rank_id(value: Any, remedy: str) -> Row:
    return Row(lambda d: d.start(rank_id=value), "rank_id", remedy, f"rank_id={value!r}")


def set_init_step(value: Any, remedy: str) -> Row:
    return Row(lambda d: d.set_init_step(value), "step", remedy, f"set_init_step={value!r}")


def register(remedy: str, *arguments: Any) -> Row:
    shown = ",".join(str(getattr(value, "__name__", value))[:20] for value in arguments)
    return Row(lambda d: d.register_custom_api(*arguments), "register_custom_api", remedy, f"register={shown}")


def seeded(name: str, value: Any, remedy: str) -> Row:
    return Row(lambda d: seed_all(**{name: value}), f"seed_all: {name}", remedy, f"seed_all-{name}={value!r}")


PAIR, INTEGER, POSITIVE = "a list or tuple of two integers [first, last]", "an integer", "greater than or equal to 0"
SEED, SWITCH, REPLACED = "an integer from 0 to 4294967295", "True or False", "lets no function be replaced"
URL = "is a URL; give a path of this machine"
ROWS = [
    *(token_range(value, PAIR) for value in ("ab", {1, 2}, 5, [], [1], [1, 2, 3], torch.ones(2, 2))),
    *(token_range(value, "two integers") for value in ([1.0, 2], [True, 2], [None, 2])),
    *(token_range(value, "0 <= first <= last") for value in ([3, 1], [-1, 1])),
    Row(lambda d: d.start(token_range=[0, 1]), "token_range", "call start(model=...", "token_range-without-model"),
    *(rank_id(value, INTEGER) for value in ("1", 1.0, True)),
    rank_id(np.int64(1), "(int64)"),
    rank_id(-1, POSITIVE),
    *(set_init_step(value, INTEGER) for value in ("1", 1.0, True, None)),
    set_init_step(-1, POSITIVE),
    Row(lambda d: d.start(scheduled_tokens=[1]), "scheduled_tokens", "a dict from request id", "scheduled_tokens-list"),
    Row(lambda d: d.start(scheduled_tokens={"a": "b"}), "scheduled_tokens", "token counts", "scheduled_tokens-text"),
    Row(lambda d: d.start(scheduled_tokens={1: 1}), "scheduled_tokens", "request ids (str)", "scheduled_tokens-key"),
    register("api_prefix must be a str, got 5", math, "sqrt", 5),
    register("math has no function 'squrt'; did you mean 'sqrt'?", math, "squrt"),
    register("math has no function 'xyz'; give the name of one that it has", math, "xyz"),
    register("math has no function 'pi'", math, "pi"),
    *(register("api must be the name of a function (str)", math, value) for value in (5, None, math.sqrt)),
    *(register("module must be a module, class or object, not its name", value, "sqrt") for value in ("math", None)),
    *(
        Row(
            lambda d, owner=owner, name=name: d.register_custom_api(owner, name),
            REPLACED,
            "call it through a function of your own",
            f"register-{name}-of-{owner!r:.15}",
        )
        for owner, name in ((int, "bit_length"), (Frozen(), "method"), (Refusing(), "method"))
    ),
    *(
        Row(
            lambda d, value=value: module_dump(value, "x"),
            "module_dump",
            "expected a torch.nn.Module, got",
            f"module_dump={value!r:.10}",
        )
        for value in (5, None, [net()], torch.nn.Linear)
    ),
    *(
        Row(
            lambda d, value=value: module_dump(net(), value),
            "module_dump",
            "the name is a non-empty str, got",
            f"module_dump-name={value!r}",
        )
        for value in (5, "", None)
    ),
    *(seeded("seed", value, SEED) for value in ("1", 1.0, True, -1, 2**32, None, [1])),
    *(seeded("mode", value, SWITCH) for value in (1, "True", None)),
    *(seeded("rm_dropout", value, SWITCH) for value in ("a", 0, None)),
    *(seeded("is_enhanced", value, SWITCH) for value in (None, 1)),
    *(
        Row(
            lambda d, value=value: random_save(value),
            "random_save: output_path",
            "a non-empty str, got",
            f"random_save={value!r}",
        )
        for value in (5, None, "", ["x"])
    ),
    Row(
        lambda d: random_save("s3://a"),
        "random_save: output_path",
        URL,
        "random-url",
    ),
    Row(lambda d: SingleSave("s3://a"), "SingleSave: dump_path", URL, "single-url"),
]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
def test_refused(row: Row, bench: Bench) -> None:
    debugger = bench.open()
    refused(row.call, debugger, 0, row.argument, row.remedy)
    debugger.start()  # and nothing is broken
    torch.tanh(torch.ones(2))
    debugger.stop()
    assert bench.read().names("tanh") == ["Torch.tanh.0.forward"]


@pytest.mark.parametrize(
    "path", ["taken", "/proc/self/nothing", "a\0b", "x" * 300], ids=["file", "proc", "NUL", "long"]
)
def test_random_save_where_nothing_can_be_written(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    randn = torch.randn
    with pytest.raises(FileCheckException) as caught:
        random_save(path)
    assert caught.value.code == FileCheckException.ILLEGAL_PATH_ERROR
    (line,) = str(caught.value).splitlines()
    assert line.startswith("[msprobe] Illegal path: random_save: output_path '")
    assert line.endswith("give a folder that can be")
    assert torch.randn is randn
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize(
    ("model", "said"),
    [
        pytest.param(lambda: None, "needs the model: call start(model=...)", id="none"),
        pytest.param(lambda: 5, "got int", id="number"),
        pytest.param(lambda: "model", "got str", id="text"),
        pytest.param(lambda: {"a": 5}, "got int", id="dict"),
        pytest.param(lambda: torch.nn.Linear, "got type", id="class"),
        pytest.param(lambda: [net(), 5], "got int at position 1", id="wrong element"),
        pytest.param(lambda: (net(), None), "got NoneType at position 1", id="None element"),
        pytest.param(list, "the list of models is empty", id="empty list"),
    ],
)
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
