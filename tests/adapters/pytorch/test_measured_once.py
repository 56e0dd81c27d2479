"""A large CPU tensor is measured once per version: when that holds, when not, and what it must not do."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.measured_once import LARGE, VARIABLE, MeasuredOnce
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.native import fused

pytestmark = [pytest.mark.torch, pytest.mark.skipif(fused is None, reason="needs the compiled kernel")]

SIZE = LARGE // 4
address = torch._C.TensorBase.data_ptr


class Meter:
    """Measures as ``TorchTensorOps`` does, and counts how often the kernel is asked."""

    def __init__(self) -> None:
        assert fused is not None
        self.once = MeasuredOnce(fused.fingerprint)
        self.once.open()
        self.asked = 0

    def kernel(self, *args: Any) -> Any:
        self.asked += 1
        assert fused is not None
        return fused.summary(*args)

    def __call__(self, tensor: torch.Tensor) -> bool:
        """Whether the numbers were remembered; they are right in any case."""
        dtype = find_dtype(str(tensor.dtype))
        assert dtype is not None and fused is not None
        span, before = (address(tensor), tensor.numel(), dtype.code), self.asked
        assert self.once.measure(tensor, span, self.kernel, False) == fused.summary(*span)
        return self.asked == before

    def born(self, tensor: torch.Tensor) -> torch.Tensor:
        self.once.created(tensor)
        assert not self(tensor)
        return tensor


@pytest.fixture
def meter() -> Iterator[Meter]:
    meter = Meter()
    yield meter
    meter.once.close()


def test_what_a_call_made_is_measured_once(meter: Meter) -> None:
    x = meter.born(torch.rand(SIZE))
    assert meter(x)
    assert meter(x)


@pytest.mark.parametrize("several", [tuple, list], ids=["tuple", "list"])
def test_each_of_several_results_is(meter: Meter, several: Callable[[Any], Any]) -> None:
    small, first, second = torch.rand(3), torch.rand(SIZE), torch.rand(SIZE)
    meter.once.created(several([small, None, first, (second,)]))
    assert [meter(x) for x in (first, second, first, second)] == [False, False, True, True]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.bool], ids=str)
def test_of_any_dtype(meter: Meter, dtype: torch.dtype) -> None:
    assert meter(meter.born((torch.rand(8 * SIZE) * 3).to(dtype)))


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda x: x.view(2, -1),
    "transpose of a transpose": lambda x: x.view(2, -1).t().t(),
    "part": lambda x: x[: SIZE // 2],
    "without autograd": lambda x: x[SIZE // 2 :],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_counts_with_its_base(meter: Meter, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = meter.born(torch.rand(SIZE))
    with torch.no_grad():
        meter(view(x))
        assert meter(view(x))
        x[0] = 7
    assert not meter(view(x))


def test_what_a_call_was_given_is_measured_each_time(meter: Meter) -> None:
    x = torch.rand(SIZE)
    assert not meter(x)
    meter.once.created(x.add_(1))  # an argument that comes back
    meter.once.created(x.view(2, -1))
    meter.once.created(x.detach())
    assert not meter(x)
    assert not meter(x)


def test_parameters_are_never_remembered(meter: Meter) -> None:
    x = meter.born(torch.nn.Parameter(torch.rand(SIZE)))
    assert not meter(x)


def test_a_view_that_only_looks_large_tells_nothing_of_the_memory(meter: Meter) -> None:
    buffer = torch.rand(SIZE)
    meter.once.created(buffer[:1].expand(SIZE))
    assert not meter(buffer)
    assert not meter(buffer)


def test_in_a_job_nothing_is_remembered(meter: Meter, tmp_path: Path) -> None:
    x = meter.born(torch.rand(SIZE))
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/job", rank=0, world_size=1)
    try:
        y = meter.born(torch.rand(SIZE))
        assert not meter(x)
        assert not meter(y)
    finally:
        torch.distributed.destroy_process_group()


def test_inference_tensors_have_no_versions_and_are_never_remembered(meter: Meter) -> None:
    with torch.inference_mode():
        x = meter.born(torch.rand(SIZE))
        assert not meter(x)


def test_every_counted_write_is_a_new_version(meter: Meter) -> None:
    x = meter.born(torch.zeros(SIZE))
    writes: list[Callable[[], Any]] = [
        lambda: x.add_(1),
        lambda: x.__setitem__(5, 9.0),
        lambda: torch.add(x, 1, out=x),
        lambda: torch._foreach_mul_([x], 2.0),
        lambda: x.view(2, -1)[1].zero_(),
        lambda: x.detach().fill_(3),
        lambda: x.copy_(torch.rand(SIZE)),
    ]
    for write in writes:
        write()
        assert not meter(x)
        assert meter(x)


def test_a_whole_tensor_written_by_pointer_is_seen(meter: Meter) -> None:
    x = meter.born(torch.rand(SIZE))
    ctypes.memset(address(x), 0, LARGE)
    assert not meter(x)


def test_memory_given_back_and_given_out_again_is_new(meter: Meter) -> None:
    places = set()
    for number in range(20):
        x = torch.full((SIZE,), float(number))
        assert not meter(x)  # never declared: at an address that was remembered, perhaps
        del x
        y = meter.born(torch.full((SIZE,), -float(number)))
        places.add(address(y))
        del y
    assert len(places) < 20


def test_two_counters_over_one_memory_are_two(meter: Meter) -> None:
    x = meter.born(torch.rand(SIZE))
    other = x.data  # not watched here: nobody told the memory
    x[0] = 100.0
    meter(x)
    assert not meter(other)
    assert not meter(other)


def test_nothing_is_kept_alive(meter: Meter) -> None:
    x = meter.born(torch.rand(SIZE))
    memory, tensor = torch._C.TensorBase.untyped_storage(x)._weak_ref(), weakref.ref(x)
    meter(x.view(2, -1))
    del x
    gc.collect()
    assert tensor() is None
    assert torch.UntypedStorage._expired(memory)
    torch.UntypedStorage._free_weak_ref(memory)


# ---- in a collection ----


def numbers(data: dict[str, Any], entry: str, section: str) -> Any:
    return [data[entry][section][0][key] for key in ("Max", "Min", "Mean", "Norm")]


def collected(bench: Any, program: Callable[[], Any], **fields: Any) -> dict[str, Any]:
    debugger = bench.open("L1", **fields)
    debugger.start()
    program()
    debugger.stop()
    debugger.step()
    found: dict[str, Any] = bench.read(len(bench.steps()) - 1).data
    return found


def poke(tensor: torch.Tensor, index: int, value: float) -> None:
    """Write one element past everything that watches."""
    ctypes.c_float.from_address(address(tensor) + 4 * index).value = value


def poked(hold: Callable[[torch.Tensor], Any] = lambda x: None) -> Callable[[], None]:
    """Write one element, which no fingerprint reads, between two calls."""

    def program() -> None:
        x = torch.add(torch.zeros(8 * SIZE), 1)
        hold(x)
        poke(x, 1, 50.0)
        torch.mul(x, 2)

    return program


@pytest.mark.parametrize("mode", ["statistics", "md5"])
def test_an_output_is_not_measured_again_as_input(bench: Any, mode: str) -> None:
    data = collected(bench, poked(), section={"summary_mode": mode})
    assert data["Torch.mul.0.forward"]["input_args"][0] == data["Torch.add.0.forward"]["output"][0]
    assert data["Torch.mul.0.forward"]["output"][0]["Max"] == 100.0


def test_it_can_be_switched_off(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    data = collected(bench, poked())
    assert numbers(data, "Torch.mul.0.forward", "input_args")[0] == 50.0


ESCAPES: dict[str, Callable[[torch.Tensor], Any]] = {
    "data": lambda x: x.data,
    "data assigned": lambda x: setattr(x, "data", x.detach()),
    "numpy": lambda x: x.numpy(),
    "numpy of a view": lambda x: x.view(2, -1)[1].numpy(),
    "numpy of an alias": lambda x: x.detach().numpy(),
    "array": lambda x: x.__array__(),
    "data_ptr": lambda x: x.data_ptr(),
    "untyped_storage": lambda x: x.untyped_storage(),
    "dlpack": lambda x: torch.from_dlpack(x),
    "to_dlpack": lambda x: torch.utils.dlpack.to_dlpack(x),
    "set_": lambda x: torch.zeros(1).set_(x),
    "share_memory": lambda x: x.share_memory_(),
    "version counter": lambda x: torch._C._autograd._unsafe_set_version_counter((x,), (0,)),
}


@pytest.mark.parametrize("hold", ESCAPES.values(), ids=ESCAPES)
def test_who_takes_the_memory_in_hand_ends_it(bench: Any, hold: Callable[[torch.Tensor], Any]) -> None:
    held: list[Any] = []
    data = collected(bench, poked(lambda x: held.append(hold(x))))
    assert numbers(data, "Torch.mul.0.forward", "input_args")[0] == 50.0


def test_python_functions_over_elements_are_writes(bench: Any) -> None:
    def program() -> None:
        x = torch.add(torch.zeros(SIZE), 1)
        x[1:2].apply_(lambda value: value + 49)
        torch.mul(x, 2)

    assert numbers(collected(bench, program), "Torch.mul.0.forward", "input_args")[0] == 50.0


def test_what_was_taken_before_the_start_is_covered_too(bench: Any) -> None:
    """A buffer of the program: an in-place call hands it on, which does not make it new."""
    buffer = torch.zeros(8 * SIZE)
    array = buffer.numpy()

    def program() -> None:
        torch.mul(buffer.add_(1), 2)
        array[1] = 50.0
        torch.mul(buffer, 2)

    assert numbers(collected(bench, program), "Torch.mul.1.forward", "input_args")[0] == 50.0


def test_gradients_are_remembered(bench: Any) -> None:
    """The gradient that one call's backward passes on is the one that the call before it gets."""
    seen = []

    def program() -> None:
        x = torch.rand(8 * SIZE, requires_grad=True)
        y = torch.mul(x, 2)
        y.register_hook(lambda gradient: seen.append(poke(gradient, 1, 50.0)))
        torch.mul(y, 3).sum().backward()

    data = collected(bench, program)
    assert seen
    assert numbers(data, "Torch.mul.0.backward", "input") == numbers(data, "Torch.mul.1.backward", "output")
    assert numbers(data, "Torch.mul.0.backward", "output")[0] == 100.0


def trained(stolen: list[bool]) -> torch.Tensor:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.rand(64, 4 * SIZE // 64))
    places: list[int] = []
    weight.register_hook(lambda gradient: places.append(address(gradient)))
    y = torch.mul(weight, torch.rand_like(weight))
    torch.add(torch.mul(y, y), y).sum().backward()
    assert weight.grad is not None
    stolen.append(address(weight.grad) == places[0])
    return weight.grad


def test_gradients_are_bit_identical_and_taken_over_without_a_copy_as_ever(bench: Any) -> None:
    plain: list[bool] = []
    expected, gradients = trained(plain), []
    found: list[bool] = []
    collected(bench, lambda: gradients.append(trained(found)))
    assert torch.equal(gradients[0], expected)
    assert found == plain


def test_tensors_can_be_swapped_while_collecting(bench: Any) -> None:
    def program() -> None:
        x, y = torch.add(torch.zeros(SIZE), 1), torch.add(torch.zeros(SIZE), 2)
        torch.utils.swap_tensors(x, y)
        torch.mul(x, 3)

    assert numbers(collected(bench, program), "Torch.mul.0.forward", "input_args")[0] == 2.0


def test_a_slice_of_an_argument_does_not_tell_whose_memory_it_is(bench: Any) -> None:
    buffer = torch.zeros(64, SIZE // 8)

    def program() -> None:
        torch.mul(buffer.add_(1).view(-1), 2)
        poke(buffer, 1, 50.0)
        torch.mul(buffer.view(-1), 2)

    data = collected(bench, program, section={"slice": [{"dim": 0, "size": 64, "begin": 0, "end": 1}]})
    assert data["Tensor.add_.0.forward"]["output"][0]["shape"] == [1, SIZE // 8]
    assert numbers(data, "Torch.mul.1.forward", "input_args")[0] == 50.0


def test_after_stop_and_start_nothing_is_known(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start()
    x = torch.add(torch.zeros(8 * SIZE), 1)
    debugger.stop()
    array = x.numpy()  # nobody sees it
    debugger.start()
    torch.mul(x, 2)
    array[1] = 50.0
    torch.mul(x, 2)
    debugger.stop()
    debugger.step()
    assert numbers(bench.read().data, "Torch.mul.1.forward", "input_args")[0] == 50.0
