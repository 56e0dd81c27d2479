"""Functions of MindSpore run again: right ones are right, planted wrong ones are found, a failing one fails alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

import mindspore
from mindspore import mint, nn, ops

from msprobe.adapters.mindspore.replay.runner import MindSporeReplayer, make_replayer
from msprobe.cli.main import run
from msprobe.core.backend.replaying import CannotReplayError, Constant, Execution, HeldTensor, PreparedCall
from msprobe.core.errors import MsprobeException
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.numerics.kinds import Level
from msprobe.precheck.checked_call import CheckedCall, Status, check_case
from msprobe.precheck.settings import CheckSettings
from msprobe.replay.cases import cases_of
from msprobe.replay.judged_call import CallJudgement, judge_call
from tests.adapters.mindspore.replay.functions import Values, calls, plain

pytestmark = pytest.mark.mindspore

CALLS = calls()
NO_KERNEL = 12
"""At most so many of these functions may have no kernel on the CPU."""
IMPRECISE = {"erf", "erfc", "elu"}
"""MindSpore's exp is off by up to 1e-6 on the CPU, and they, or their gradients, are made of it."""


@pytest.fixture(scope="module")
def replayer() -> MindSporeReplayer:
    return make_replayer()


def with_gradients(call: PreparedCall, execution: Execution) -> PreparedCall:
    random = np.random.default_rng(3)
    shapes = [execution.outputs[place].values.shape for place in execution.differentiable]
    values = [np.asarray(random.standard_normal(shape), np.float32) for shape in shapes]
    return replace(call, gradients=[HeldTensor(each, "float32") for each in values])


def judged(name: str, replayer: MindSporeReplayer) -> CallJudgement:
    prefix, _, api = name.partition(".")
    args, kwargs = CALLS[name]
    call = PreparedCall(prefix, api, args, kwargs)
    return judge_call(with_gradients(call, replayer.run(call, "cpu")), replayer, "cpu")


def errors(answer: CallJudgement) -> list[str]:
    values = (*answer.forward, *answer.backward)
    return [value.slot for value in values if value.conditioned.level is Level.ERROR]


def test_functions_are_right(replayer: MindSporeReplayer) -> None:
    wrong, skipped, backward = {}, [], 0
    for name in CALLS:
        try:
            answer = judged(name, replayer)
        except CannotReplayError as error:
            skipped.append(f"{name}: {error}")
            continue
        backward += bool(answer.backward)
        if found := errors(answer):
            wrong[name] = found
    assert {name for name in wrong if name.partition(".")[2] not in IMPRECISE} == set()
    assert len(skipped) <= NO_KERNEL, skipped
    assert len(CALLS) - len(skipped) >= 110
    assert backward >= 90


def damaged(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that is wrong for all dtypes but float64."""

    def wrong(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if result.dtype == mindspore.float64 else change(result)

    return wrong


def element(factor: float) -> Callable[[Any], Any]:
    def change(result: Any) -> Any:
        factors = np.ones(result.shape, np.float32)
        factors.flat[factors.size // 2] = factor
        return result * mindspore.Tensor(factors)

    return change


PLANTS = [
    (mint, "Mint.exp", lambda result: result * 1.01),
    (ops, "Functional.tanh", element(-1.0)),
    (mint, "Mint.matmul", element(1.2)),
    (ops, "Functional.softmax", lambda result: ops.flip(result, (1,))),
    (mint, "Mint.sigmoid", element(float("nan"))),
    (ops, "Functional.gelu", lambda result: result.astype(mindspore.float16).astype(mindspore.float32)),
    (ops, "Functional.stack", element(0.0)),
    (mint, "Mint.mean", lambda result: result * 0.9),
    (ops, "Functional.cumsum", lambda result: result + 0.01),
    (ops, "Functional.log_softmax", element(float("inf"))),
    (ops, "Functional.relu", lambda result: ops.floor(result * 64) / 64),
]


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("owner", "name", "change"), PLANTS, ids=[name for _, name, _ in PLANTS])
def test_a_planted_function_is_found(
    owner: Any,
    name: str,
    change: Callable[[Any], Any],
    replayer: MindSporeReplayer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = name.partition(".")[2]
    assert errors(judged(name, replayer)) == []
    monkeypatch.setattr(owner, api, damaged(getattr(owner, api), change))
    assert "output.0" in errors(judged(name, replayer))


def test_a_kernel_that_fails_fails_alone(replayer: MindSporeReplayer) -> None:
    good = PreparedCall("Functional", "abs", [Values("x").any(3)], {})
    with pytest.raises(CannotReplayError):
        replayer.run(PreparedCall("Functional", "matmul", [Values("x").any(3, 4), Values("x").any(3, 4)], {}), "cpu")
    assert replayer.run(good, "cpu").outputs[0].values.shape == (3,)


@pytest.mark.parametrize(
    "name",
    [
        *("Functional.no_such", "Mint.__class__", "Os.system", "Primitive.lower", "Primitive.Conv2D"),
        *("Primitive.MatMul", "Primitive.TensorDump", "Primitive.Print"),
    ],
)
def test_what_is_no_recorded_function_is_refused(name: str, replayer: MindSporeReplayer) -> None:
    prefix, _, api = name.partition(".")
    with pytest.raises(CannotReplayError):
        replayer.function(PreparedCall(prefix, api, [], {}))


CUSTOM = {"func": plain("./library.so:f"), "out_shape": plain("x"), "out_dtype": plain("x"), "func_type": plain("aot")}


@pytest.mark.parametrize(
    ("api", "attributes", "reason"),
    [
        ("Custom", CUSTOM, "known to compute and do nothing else"),
        ("TensorDump", {"input_output": plain("in")}, "known to compute and do nothing else"),
        ("MatMul", {"no_such": plain(1)}, "cannot be made of its attributes"),
    ],
)
def test_a_dump_makes_operators_that_compute_and_no_others(
    api: str, attributes: Any, reason: str, replayer: MindSporeReplayer
) -> None:
    with pytest.raises(CannotReplayError, match=reason):
        replayer.function(PreparedCall("Primitive", api, [], {}, attributes=attributes))


class Attributed(nn.Cell):
    """Operators that are objects, each made of arguments; their results differ from those without."""

    def __init__(self) -> None:
        super().__init__()
        self.product, self.norm = ops.MatMul(transpose_b=True), ops.LayerNorm(1, 1, 0.1)
        self.filter, self.pool = ops.Conv2D(2, (3, 3), pad_mode="same"), ops.MaxPool((2, 2), 2)

    def construct(self, x: Any, image: Any, weight: Any) -> Any:
        ones = ops.ones(4, mindspore.float32)
        made = ops.ReduceSum(keep_dims=True)(self.product(x, x), 1)
        return self.norm(x, ones, ones)[0].sum() + made.sum() + self.pool(self.filter(image, weight)).sum()


@pytest.fixture(scope="module")
def attributed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the dump of one pass of ``Attributed``."""
    from msprobe.mindspore import PrecisionDebugger

    PrecisionDebugger._instance = None
    folder, net = tmp_path_factory.mktemp("attributed"), Attributed()
    debugger: Any = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "tensor"})
    draw = np.random.default_rng(0).standard_normal
    given = [mindspore.Tensor(draw(shape), mindspore.float32) for shape in ((4, 4), (1, 1, 4, 4), (2, 1, 3, 3))]
    debugger.start(net)
    mindspore.grad(net)(*given).asnumpy()
    debugger.stop()
    debugger.step()
    (document,) = folder.glob("step0/*/dump.json")
    return document


OPERATORS = ("product.MatMul", "norm.LayerNorm", "pool.MaxPool", "ReduceSum")


def checked(document: Path, replayer: MindSporeReplayer) -> dict[str, CheckedCall]:
    (place,) = find_dumps(document)
    settings = CheckSettings(device="cpu")
    runs = (check_case(case, replayer, settings).checked for case in cases_of(load_dump(place)))
    return {run.name: run for run in runs}


def test_operators_run_again_with_what_made_them(attributed: Path, replayer: MindSporeReplayer) -> None:
    data = json.loads(attributed.read_text())["data"]
    assert data["Primitive.product.MatMul.0.forward"]["attributes"]["transpose_b"] == {"type": "bool", "value": True}
    found = checked(attributed, replayer)
    assert {name: found[f"Primitive.{name}.0"].forward for name in OPERATORS} == dict.fromkeys(OPERATORS, Status.PASS)
    assert found["Primitive.filter.Conv2D.0"].message == "the CPU has no kernel of a higher precision to compare with"


def test_what_runs_otherwise_than_it_was_recorded_is_not_judged(
    attributed: Path, replayer: MindSporeReplayer, tmp_path: Path
) -> None:
    shutil.copytree(attributed.parent, tmp_path, dirs_exist_ok=True)
    content = json.loads(attributed.read_text())
    product, total = (content["data"][f"Primitive.{name}.0.forward"] for name in ("product.MatMul", "ReduceSum"))
    product["attributes"]["transpose_b"]["value"] = False
    del total["attributes"]
    (tmp_path / "dump.json").write_text(json.dumps(content))
    found = checked(tmp_path / "dump.json", replayer)
    assert found["Primitive.product.MatMul.0"].status is Status.SKIP
    assert "not judged: what runs here is not what was recorded" in found["Primitive.product.MatMul.0"].message
    assert found["Primitive.ReduceSum.0"].status is Status.SKIP
    assert "are not in the dump" in found["Primitive.ReduceSum.0"].message


def test_a_result_of_another_form_is_not_judged_without_values_either(
    attributed: Path, replayer: MindSporeReplayer, tmp_path: Path
) -> None:
    content = json.loads(attributed.read_text().replace('"data_name"', '"not_data_name"'))
    content["data"]["Primitive.product.MatMul.0.forward"]["output"][0]["shape"] = [3, 3]
    (tmp_path / "dump.json").write_text(json.dumps(content))
    found = checked(tmp_path / "dump.json", replayer)
    assert found["Primitive.product.MatMul.0"].message == (
        "not judged: what runs here is not what was recorded: output.0 is float32 of shape [4, 4], in the dump float32 "
        "of shape [3, 3]"
    )
    assert found["Primitive.pool.MaxPool.0"].status is Status.PASS


def test_a_script_makes_the_operator(attributed: Path, tmp_path: Path) -> None:
    name = "Primitive.filter.Conv2D.0"
    assert run(["op_generate", str(attributed), "--api", name, "-o", str(tmp_path)]) == 0
    (script,) = tmp_path.glob("*.py")
    line = next(line for line in script.read_text().splitlines() if line.startswith("FUNCTION"))
    assert line.startswith("FUNCTION = mindspore.ops.Conv2D(out_channel=2, kernel_size=(3, 3, )")
    made = eval(line.partition(" = ")[2], {"mindspore": mindspore})
    assert made.init_attrs["pad_mode"] == "same"


def test_bfloat16_and_random_numbers(replayer: MindSporeReplayer) -> None:
    values = HeldTensor(np.float32([1.0, 2.5, -3.0]), "bfloat16")
    reshaped = PreparedCall("Functional", "reshape", [values, Constant("size", (3, 1))], {})
    found = replayer.run(reshaped, "cpu").outputs[0]
    assert (found.dtype, found.values.ravel().tolist()) == ("bfloat16", [1.0, 2.5, -3.0])
    dropped = PreparedCall("Functional", "dropout", [Values("d").any(40, 50), plain(0.5)], {})
    assert errors(judge_call(dropped, replayer, "cpu")) == []


def test_another_device_is_refused(replayer: MindSporeReplayer) -> None:
    assert replayer.best_device() == "cpu"
    with pytest.raises(MsprobeException, match="-d npu:0: this MindSpore runs on CPU"):
        replayer.check_device("npu:0")


@pytest.mark.slow
def test_a_dump_of_mindspore_is_checked(tmp_path: Path) -> None:
    from msprobe.mindspore import PrecisionDebugger

    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(tmp_path / "run"), "level": "L1", "task": "tensor"})
    weight = mindspore.Tensor(np.random.default_rng(0).standard_normal((8, 3)), mindspore.float32)

    def loss(given: Any) -> Any:
        return ops.relu(ops.matmul(given, weight)).sum()

    debugger.start()
    mindspore.grad(loss)(mindspore.Tensor(np.ones((4, 8)), mindspore.float32)).asnumpy()
    debugger.stop()
    debugger.step()
    result = tmp_path / "result.json"
    assert run(["acc_check", "-api_info", str(tmp_path / "run"), "-o", str(tmp_path), "--json", str(result)]) == 0
    content = json.loads(result.read_text())
    assert content["counts"]["error"] == 0
    assert content["counts"]["pass"] >= 3
    (details,) = tmp_path.glob("accuracy_checking_details_*.csv")
    head = details.read_text(encoding="utf-8-sig").splitlines()[0]
    assert head == "API Name,Bench Dtype,Tested Dtype,Shape,Cosine,MaxAbsErr,MaxRelativeErr,Status,Message"
