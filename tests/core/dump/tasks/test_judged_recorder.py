"""Judges decide by the body of a call: non-finite results, and differences from a golden dump."""

from __future__ import annotations

import math
from typing import Any

import pytest

from msprobe.core.dump.tasks.judged_recorder import Findings
from msprobe.core.dump.tasks.live_compare import LiveComparison
from msprobe.core.dump.tasks.nonfinite import NonFinite

INF, NAN = math.inf, math.nan


def tensor(largest: float | None = 1.0, least: float | None = 0.0, **more: Any) -> dict[str, Any]:
    facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": largest, "Min": least}
    return {**facts, "Mean": 0.5, "Norm": 1.0, **more}


def number(value: float) -> dict[str, Any]:
    return {"type": "float", "value": value}


def call(output: Any, *inputs: Any, **keywords: Any) -> dict[str, Any]:
    return {"input_args": list(inputs), "input_kwargs": keywords, "output": [output]}


@pytest.mark.parametrize(
    ("body", "guilty"),
    [
        (call(tensor(INF), tensor()), True),
        (call(tensor(0.0, -INF), tensor()), True),
        (call(tensor(NAN, NAN)), True),
        (call([tensor(), {"a": tensor(NAN)}], tensor()), True),
        (call(number(NAN), tensor()), True),
        (call(tensor(), tensor()), False),
        (call(tensor(), tensor(NAN)), False),
        (call(tensor(NAN), tensor(NAN)), False),
        (call(tensor(NAN), tensor(), x=[tensor(INF)]), False),
        (call(tensor(0.0, -INF), tensor(), number(-INF)), False),
        (call(tensor(None, None), tensor()), False),
        ({"input": [tensor()], "output": [None, tensor(INF)]}, True),
        ({"input": [tensor(INF)], "output": [tensor(INF)]}, False),
        ({**call(tensor(NAN), tensor()), "parameters": {"w": tensor(NAN)}}, False),
        ({"weight": [tensor(NAN)]}, True),
        ({"input_args": [tensor()], "input_kwargs": {}, "error": "ValueError: no"}, False),
    ],
)
def test_guilty_is_who_makes_non_finite_values_of_finite_ones(body: dict[str, Any], guilty: bool) -> None:
    name = "Module.x.X.parameters_grad.0" if "weight" in body else "Module.x.X.forward.0"
    strict, lax = NonFinite(only_findings=True).judge(name, body), NonFinite(only_findings=False).judge(name, body)
    assert (strict.finding is not None) == (lax.finding is not None) == guilty
    assert strict.keep == guilty
    assert lax.keep


GOLDEN = {"f": call(tensor(), tensor(), number(2.0), x={"y": [tensor(), tensor()]})}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (GOLDEN["f"], None),
        (call(tensor(1.0 + 1e-7), tensor(), number(2.0), x={"y": [tensor(), tensor()]}), None),
        (call(tensor(1.1), tensor(), number(2.0), x={"y": [tensor(), tensor()]}), "Max 1.1"),
        (call(tensor(shape=[3]), tensor(), number(2.0), x={"y": [tensor(), tensor()]}), "shape"),
        (call(None, tensor(), number(2.0), x={"y": [tensor(), tensor()]}), "no tensor"),
        (call(tensor(NAN), tensor(), number(2.0), x={"y": [tensor(), tensor()]}), "Max nan"),
        (call(tensor(1.1), tensor(5.0), number(2.0), x={"y": [tensor(), tensor()]}), None),
        (call(tensor(1.1), tensor(), number(3.0), x={"y": [tensor(), tensor()]}), None),
        (call(tensor(1.1), tensor(), number(2.0), x={"y": [tensor(), tensor(9.0)]}), None),
        (call(tensor(1.1), tensor()), None),
    ],
)
def test_a_call_differs_when_only_its_output_does(body: dict[str, Any], word: str | None) -> None:
    finding = LiveComparison(GOLDEN).judge("f", body).finding
    assert (finding is None) if word is None else (finding is not None and word in finding)


def gradient(value: float) -> dict[str, Any]:
    return {"weight": [tensor(value)]}


def test_a_parameter_gradient_waits_for_every_backward_of_its_module() -> None:
    judge = NonFinite(only_findings=True)
    for number in (0, 1):
        assert judge.judge(f"Module.a.A.forward.{number}", call(tensor(), tensor())).finding is None
    judge.judge("Module.a.A.backward.1", {"input": [tensor()], "output": [tensor()]})
    assert judge.judge("Module.a.A.parameters_grad.0", gradient(NAN)).defer
    assert not judge.judge("Module.a.A.parameters_grad.0", gradient(1.0)).defer
    judge.judge("Module.a.A.backward.0", {"input": [tensor()], "output": [tensor()]})
    assert judge.judge("Module.a.A.parameters_grad.0", gradient(NAN)).finding is not None


@pytest.mark.parametrize(
    ("forward", "backward", "found"),
    [
        (call(tensor(), tensor()), {"input": [tensor()], "output": [tensor()]}, True),
        (call(tensor(), tensor()), {"input": [tensor(INF)], "output": [tensor()]}, False),
        (call(tensor(), tensor()), {"input": [tensor()], "output": [tensor(NAN)]}, False),
        (call(tensor(NAN), tensor()), {"input": [tensor()], "output": [tensor()]}, False),
        (call(tensor(), tensor(NAN)), {"input": [tensor()], "output": [tensor()]}, False),
        (call(tensor(), tensor(1.0, -INF)), {"input": [tensor()], "output": [tensor()]}, True),
    ],
    ids=["sound", "handed on", "its backward", "its forward", "a NaN went in", "a mask went in"],
)
def test_a_parameter_gradient_is_guilty_when_its_module_was_sound(
    forward: dict[str, Any], backward: dict[str, Any], found: bool
) -> None:
    judge = NonFinite(only_findings=True)
    judge.judge("Module.a.A.forward.0", forward)
    judge.judge("Module.a.A.backward.0", backward)
    assert (judge.judge("Module.a.A.parameters_grad.0", gradient(NAN)).finding is not None) == found


def test_nothing_waits_when_nothing_follows() -> None:
    judge = NonFinite(only_findings=True)
    judge.judge("Module.a.A.forward.0", call(tensor(), tensor()))
    assert judge.judge("Module.a.A.parameters_grad.0", gradient(NAN), final=True).finding is not None


@pytest.mark.parametrize(
    ("here", "golden", "differs"),
    [
        (tensor(md5="aa"), tensor(md5="aa"), False),
        (tensor(md5="aa"), tensor(md5="bb"), True),
        (tensor(9.0, md5="aa"), tensor(md5="aa"), False),
        (tensor(md5="aa"), tensor(), False),
        (tensor(9.0), tensor(md5="aa"), True),
        (tensor(NAN), tensor(NAN), False),
        (tensor(INF), tensor(INF), False),
        (tensor(INF), tensor(-INF), True),
        (tensor(1e6, Mean=1.0), tensor(1e6, Mean=1.5), False),
        (tensor(md5="0xaa"), tensor(md5="aa"), False),
        (tensor(9.0, md5="0xaa"), tensor(md5="aa"), True),
    ],
)
def test_checksums_decide_where_both_have_one(here: Any, golden: Any, differs: bool) -> None:
    judge = LiveComparison({"f": call(golden)})
    assert (judge.judge("f", call(here)).finding is not None) == differs


def test_unknown_calls_are_counted_and_not_passed() -> None:
    judge = LiveComparison(GOLDEN)
    assert judge.judge("g", call(tensor())).finding is None
    assert "; 1 call is not in the golden dump and not compared (first: g)" in judge.conclusion()


@pytest.mark.parametrize(("limit", "ends"), [(1, [1]), (3, [3]), (-1, [])])
def test_findings_end_once_with_the_last_one_asked_for(limit: int, ends: list[int]) -> None:
    ended: list[int] = []
    findings = Findings(limit, lambda: ended.append(findings.count))
    for _ in range(limit if limit > 0 else 5):
        assert not findings.exhausted
        findings.add("f", "is wrong")
    assert ended == ends
