"""The calls and values of one dump: who made a value, by the memory that records name, or by statistics."""

from __future__ import annotations

from typing import Any

from msprobe.trace.trace import Link, Trace, Value


def tensor(scale: float = 1.0, memory: str | None = None, part: str = "", shape: tuple[int, ...] = (2, 3)) -> Any:
    numbers = {"Max": 2.5 * scale, "Min": -0.5 * scale, "Mean": 0.7 * scale, "Norm": 4.1 * scale}
    where = {"memory": memory} if memory else {}
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(shape),
        **numbers,
        **where,
        **({"part": part} if part else {}),
    }


def call(given: list[Any], returned: list[Any], **parameters: Any) -> dict[str, Any]:
    return {"input_args": given, "input_kwargs": {}, "output": returned, "parameters": parameters}


def origin(trace: Trace, name: str) -> tuple[str | None, Link | None]:
    value = trace.value(name)
    assert value is not None
    return (value.origin.name if value.origin is not None else None), value.link


def test_memory_leads_through_views_that_are_not_recorded() -> None:
    data = {
        "Torch.relu.0.forward": call([tensor(1.0, "1.0")], [tensor(2.0, "2.0")]),
        "Torch.relu.1.forward": call([tensor(1.5, "3.0")], [tensor(2.0, "4.0")]),  # has the same statistics
        "Torch.exp.0.forward": call([tensor(2.0, "2.0", "0:1,3", (3, 2))], [tensor(5.0, "5.0")]),
    }
    assert origin(Trace(data, {}), "Torch.exp.0.forward.input.0") == ("Torch.relu.0.forward.output.0", Link.RECORDED)


def test_without_memory_statistics_tell() -> None:
    data = {
        "Torch.relu.0.forward": call([tensor()], [tensor(2.0)]),
        "Torch.exp.0.forward": call([tensor(2.0, shape=(3, 2))], [tensor(5.0)]),
    }
    trace = Trace(data, {})
    assert not trace.is_recorded
    assert origin(trace, "Torch.exp.0.forward.input.0") == ("Torch.relu.0.forward.output.0", Link.INFERRED)


def test_a_copy_without_a_record_is_inferred() -> None:
    data = {
        "Torch.relu.0.forward": call([tensor(1.0, "1.0")], [tensor(2.0, "2.0")]),
        "Torch.exp.0.forward": call([tensor(2.0, "9.0")], [tensor(5.0, "5.0")]),
    }
    assert origin(Trace(data, {}), "Torch.exp.0.forward.input.0") == ("Torch.relu.0.forward.output.0", Link.INFERRED)


def test_what_code_without_a_record_wrote_is_a_source() -> None:
    data = {
        "Torch.relu.0.forward": call([tensor(1.0, "1.0")], [tensor(2.0, "2.0")]),
        "Torch.exp.0.forward": call([tensor(3.0, "2.0")], [tensor(5.0, "5.0")]),
    }
    value = Trace(data, {}).value("Torch.exp.0.forward.input.0")
    assert value is not None
    assert value.is_source


def test_a_write_in_place_is_a_definition() -> None:
    data = {
        "Torch.relu.0.forward": call([tensor(1.0, "1.0")], [tensor(2.0, "2.0")]),
        "Tensor.mul_.0.forward": call([tensor(2.0, "2.0")], [tensor(3.0, "2.1")]),
        "Torch.exp.0.forward": call([tensor(3.0, "2.1")], [tensor(5.0, "5.0")]),
    }
    trace = Trace(data, {})
    assert origin(trace, "Torch.exp.0.forward.input.0") == ("Tensor.mul_.0.forward.output.0", Link.RECORDED)
    assert origin(trace, "Tensor.mul_.0.forward.input.0") == ("Torch.relu.0.forward.output.0", Link.RECORDED)


def test_the_innermost_call_made_a_value_and_modules_pass_it_on() -> None:
    module = "Module.fc.Linear.forward.0"
    data = {
        "Functional.linear.0.forward": call([tensor(1.0, "1.0"), tensor(4.0, "7.0")], [tensor(2.0, "2.0")]),
        module: call([tensor(1.0, "1.0")], [tensor(2.0, "2.0")], weight=tensor(4.0, "7.0")),
        "Torch.exp.0.forward": call([tensor(2.0, "2.0")], [tensor(5.0, "5.0")]),
    }
    trace = Trace(data, {"Functional.linear.0.forward": module, module: None})
    made = trace.value("Functional.linear.0.forward.output.0")
    assert made is not None
    assert [user.name for user in made.users] == [f"{module}.output.0", "Torch.exp.0.forward.input.0"]
    assert trace.parameters == {"7": "fc.weight"}


def test_an_input_of_a_module_is_not_what_a_call_inside_it_makes_of_it() -> None:
    module = "Module.act.ReLU.forward.0"
    data = {
        "Functional.relu_.0.forward": call([tensor(1.0, "1.0")], [tensor(1.0, "1.1")]),
        module: call([tensor(1.0, "1.0")], [tensor(1.0, "1.1")]),
    }
    value = Trace(data, {"Functional.relu_.0.forward": module}).value(f"{module}.input.0")
    assert value is not None
    assert value.is_source


def test_a_backward_call_inside_a_module_is_recorded_behind_it() -> None:
    module, inner = "Module.fc.Linear.backward.0", "Functional.linear.0.backward"
    gradient = {"input": [tensor(3.0, "3.0")], "output": [tensor(2.0, "2.0")]}
    trace = Trace({module: gradient, inner: gradient}, {inner: module, module: None})
    assert origin(trace, f"{module}.output.0") == (f"{inner}.output.0", Link.RECORDED)


def test_uses_of_a_source_belong_together() -> None:
    data = {f"Torch.exp.{number}.forward": call([tensor(1.0, "1.0")], [tensor(2.0)]) for number in range(2)}
    first = Trace(data, {}).value("Torch.exp.0.forward.input.0")
    assert isinstance(first, Value)
    assert [user.name for user in first.users] == ["Torch.exp.1.forward.input.0"]


def test_a_damaged_record_is_borne() -> None:
    odd = [{**tensor(), "memory": 7}, {**tensor(), "memory": "1.0", "part": "x"}, {**tensor(), "shape": "many"}]
    Trace({"Torch.exp.0.forward": call(odd, odd), "Torch.exp.1.forward": call(odd, odd)}, {"Torch.exp.0.forward": 3})
