"""Which call is named as the source of the first NaN or infinity, and which values are no fault."""

import math
from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.overflow import check_overflow
from msprobe.core.errors import NotComparableError, ReadError
from tests.compare.dumps import Entry, call, gradient, module, number, tensor, write

GOOD = tensor()
NAN = tensor(math.nan)
INFINITE = tensor(Max=math.inf)
MASK = tensor(Max=0.0, Min=-math.inf, Mean=-math.inf, Norm=math.inf)


def named(folder: Path, data: dict[str, Any], **more: Any) -> str | None:
    write(folder / "step0" / "rank0", data, **more)
    found = check_overflow(folder / "step0").document()
    return found["rank_0"][0]["op_name"] if found else None


AFTER: dict[str, Entry] = {"Torch.exp.0.forward": call([NAN], [NAN])}
SOURCES: dict[str, dict[str, Entry]] = {
    "top_level": {"Torch.div.0.forward": call([GOOD], [NAN])},
    "infinity": {"Torch.mul.0.forward": call([GOOD, GOOD], [INFINITE])},
    "nested_output": {"Torch.split.0.forward": call([GOOD], [[GOOD, NAN]])},
    "keyword_input_is_good": {"Torch.where.0.forward": call([GOOD], [NAN], other={"deep": [GOOD]})},
    "text": {"Torch.div.0.forward": call([GOOD], [tensor(Max="NaN", Min="nan")])},
    "backward": {"Torch.sqrt.0.backward": gradient([GOOD], [[INFINITE]])},
    "parameter_gradient": {"Module.fc.Linear.parameters_grad.0": {"weight": [NAN]}},
    "nan_out_of_a_mask": {
        "Tensor.masked_fill.0.forward": call([GOOD, number(-math.inf)], [MASK]),
        "Torch.softmax.0.forward": call([MASK], [NAN]),
    },
    "saved_value": {"loss.0.debug": {"logits": [GOOD, NAN]}},
}


@pytest.mark.parametrize("case", list(SOURCES))
def test_the_call_that_made_it(case: str, tmp_path: Path) -> None:
    assert named(tmp_path, SOURCES[case] | AFTER) == list(SOURCES[case])[-1]


ENTERING = {
    "input": {"Torch.exp.0.forward": call([NAN], [NAN])},
    "nested_input": {"Torch.cat.0.forward": call([[GOOD, [NAN]]], [NAN])},
    "keyword": {"Torch.add.0.forward": call([GOOD], [NAN], other=NAN)},
    "parameter": {"Module.fc.Linear.forward.0": module([GOOD], [NAN], weight=NAN)},
}


@pytest.mark.parametrize("case", list(ENTERING))
def test_values_that_no_recorded_call_made(case: str, tmp_path: Path) -> None:
    """They are told as coming in; the call that got them is not said to have made them."""
    data = ENTERING[case] | {"Torch.div.9.forward": call([GOOD], [NAN])}
    assert named(tmp_path, data) == next(iter(data))
    assert "no earlier call of the step made it" in "".join(check_overflow(tmp_path).lines)


HARMLESS = {
    "mask_by_argument": {
        "Tensor.masked_fill.0.forward": call([GOOD, number(-math.inf)], [MASK]),
        "Torch.add.0.forward": call([GOOD, MASK], [MASK]),
        "Torch.softmax.0.forward": call([MASK], [GOOD]),
    },
    "mask_from_outside": {"Torch.add.0.forward": call([GOOD, MASK], [MASK])},
    "full_of_infinity": {"Torch.full.0.forward": call([[number(2)], number("-inf")], [tensor(-math.inf)])},
    "unwritten_memory": {
        "Torch.empty.0.forward": call([number(4)], [NAN]),
        "Tensor.copy_.0.forward": call([NAN, GOOD], [GOOD]),
    },
    "unwritten_memory_passed_on": {
        "Tensor.new_empty.0.forward": call([GOOD], [NAN]),
        "Distributed.all_gather_into_tensor.0.forward": call([NAN, GOOD], [GOOD]),
    },
    "empty_tensor": {"Torch.cat.0.forward": call([GOOD], [tensor(Max=None, Min=None, shape=(0,))])},
}


@pytest.mark.parametrize("case", list(HARMLESS))
def test_what_a_program_does_on_purpose(case: str, tmp_path: Path) -> None:
    assert named(tmp_path, HARMLESS[case]) is None


def test_the_record_has_modules_stack_and_values(tmp_path: Path) -> None:
    data = {"Torch.div.0.forward": call([GOOD], [NAN], rounding_mode=number("floor"))}
    construct = {"Torch.div.0.forward": "Module.a.B.forward.0", "Module.a.B.forward.0": None}
    write(tmp_path / "rank0", data, construct, {"Torch.div.0.forward": ["File a.py, line 1, in f"]})
    (found,) = check_overflow(tmp_path).document()["rank_0"]
    assert found["construct_info"] == ["Module.a.B.forward.0", "Torch.div.0.forward"]
    assert found["stack_info"] == ["File a.py, line 1, in f"]
    assert list(found["data_info"]) == ["input_args", "input_kwargs", "output"]


def test_a_dump_without_construct_and_stack(tmp_path: Path) -> None:
    folder = write(tmp_path / "proc7", {"Torch.div.0.forward": call([GOOD], [NAN])})
    (folder / "construct.json").unlink()
    (found,) = check_overflow(tmp_path).document()["rank_0"]
    assert (found["construct_info"], found["stack_info"]) == (["Torch.div.0.forward"], {})


def test_the_first_step_with_a_finding_counts(tmp_path: Path) -> None:
    write(tmp_path / "step0" / "rank0", {"Torch.div.0.forward": call([GOOD], [GOOD])})
    write(tmp_path / "step1" / "rank0", {"Torch.log.0.forward": call([GOOD], [NAN])})
    write(tmp_path / "step2" / "rank0", {"Torch.div.0.forward": call([GOOD], [NAN])})
    assert "step 1" in next(iter(check_overflow(tmp_path).lines))


def test_mindspore_dumps(tmp_path: Path) -> None:
    odd = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "Max": math.nan, "Min": math.nan}
    data = {"Mint.add.0.forward": call([GOOD], [GOOD]), "Functional.softmax.0.forward": call([GOOD], [odd])}
    assert named(tmp_path, data) == "Functional.softmax.0.forward"


@pytest.mark.parametrize("facts", [{"md5": "0x1"}, {"Max": 1.0, "Mean": 0.5}], ids=["checksum", "no Min"])
def test_without_both_extremes_nothing_can_be_said(tmp_path: Path, facts: dict[str, Any]) -> None:
    """An infinity may be the smallest element."""
    bare = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **facts}
    with pytest.raises(NotComparableError, match="holds no Max and Min"):
        named(tmp_path, {"Torch.div.0.forward": call([bare], [bare])})


def test_no_dump_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"no dump\.json"):
        check_overflow(tmp_path)


ARGUMENTS: dict[str, tuple[Entry, str]] = {
    "number": (call([GOOD, number(math.nan)], [NAN]), "NaN is in its argument input.1"),
    "keyword": (call([GOOD], [NAN], other=number(math.nan)), "NaN is in its argument input.other"),
    "text": (call([GOOD, number("NaN")], [NAN]), "NaN is in its argument input.1"),
    "infinity": (call([GOOD, number(math.inf)], [NAN]), "out of infinities"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_argument_that_is_not_finite_is_told(case: str, tmp_path: Path) -> None:
    """What the program itself gives is neither finite nor made by the call."""
    body, told = ARGUMENTS[case]
    assert named(tmp_path, {"Torch.mul.0.forward": body} | AFTER) == "Torch.mul.0.forward"
    lines = "".join(check_overflow(tmp_path).lines)
    assert told in lines and "everything it was given is finite" not in lines


def test_a_nan_argument_without_consequences_is_no_fault(tmp_path: Path) -> None:
    data = {"Torch.nan_to_num.0.forward": call([GOOD, number(math.nan)], [GOOD]), **AFTER}
    assert named(tmp_path, data) == next(iter(AFTER))
