"""The memory that a record names: one number for as long as a storage lives, and the version of its content."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from msprobe.adapters.pytorch.tensors.storages import note_memory
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps

pytestmark = pytest.mark.torch


def memory(tensor: torch.Tensor) -> dict[str, Any]:
    node = TorchTensorOps().describe(tensor, True)
    before = dict(node)
    note_memory(tensor, node)
    return {key: value for key, value in node.items() if key not in before}


def number(tensor: torch.Tensor) -> str:
    found: str = memory(tensor)["memory"]
    return found.partition(".")[0]


def test_views_share_memory_and_say_which_part_they_are() -> None:
    tensor = torch.arange(12.0).reshape(3, 4).clone()
    whole = memory(tensor)
    assert list(whole) == ["memory"]
    assert [memory(view) for view in (tensor.detach(), tensor.view(4, 3), tensor.data)] == [whole] * 3
    assert memory(tensor.t()) == {**whole, "part": "0:1,4"}
    assert memory(tensor[1:, 2]) == {**whole, "part": "6:4"}
    assert memory(tensor[1]) == {**whole, "part": "4:1"}


def test_a_write_moves_the_version_for_every_view() -> None:
    tensor = torch.zeros(2, 3)
    view, own = tensor[0], number(tensor)
    tensor.add_(1)
    view.mul_(2)
    assert memory(tensor)["memory"] == memory(view)["memory"] == f"{own}.2"


def test_a_later_storage_at_the_same_address_has_another_number() -> None:
    numbers, addresses = set(), set()
    for _ in range(50):
        tensor = torch.zeros(1000)
        addresses.add(tensor.untyped_storage()._cdata)
        numbers.add(number(tensor))
        del tensor
    assert len(numbers) == 50 > len(addresses)


def test_a_storage_keeps_its_number_without_any_object_of_python() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    total = (weight * torch.full((3,), 2.0)).sum()  # the factor lives in the graph alone
    saved = total.grad_fn.next_functions[0][0]
    assert number(saved._saved_other) == number(saved._saved_other)


@pytest.mark.parametrize("copied", [copy.deepcopy, torch.clone, lambda tensor: copy.copy(tensor.untyped_storage())])
def test_a_copy_has_memory_of_its_own(copied: Any) -> None:
    tensor = torch.ones(3)
    own, other = number(tensor), copied(tensor)
    if not isinstance(other, torch.Tensor):
        other = torch.empty(0).set_(other)
    assert number(other) != own


def test_tensors_of_inference_mode_have_no_version() -> None:
    with torch.inference_mode():
        made = torch.ones(3)
        made.add_(1)
        inside = memory(made)["memory"]
    assert inside.isdigit()
    assert memory(made[1:]) == {"memory": inside, "part": "1:1"}


def test_a_tensor_inside_a_transform_lies_in_the_memory_below() -> None:
    seen: list[dict[str, str]] = []
    given = torch.ones(2, 3)

    def function(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(memory(tensor))
        return (tensor * 2).sum()

    torch.func.vmap(function, in_dims=1)(given)
    torch.func.grad(function)(given)
    assert seen == [memory(given.T), memory(given)]


def test_a_tensor_without_values_or_storage_has_no_memory() -> None:
    with FakeTensorMode():
        seen = [memory(torch.ones(3))]
    seen += [memory(torch.ones(3, device="meta")), memory(torch.eye(3).to_sparse())]
    emptied = torch.ones(3)
    emptied.untyped_storage().resize_(0)
    assert [*seen, memory(emptied)] == [{}] * 4


def test_a_subclass_is_where_its_tensor_is() -> None:
    class Named(torch.Tensor):
        pass

    tensor = torch.ones(3)
    assert memory(tensor.as_subclass(Named)) == memory(tensor)
    nested = torch.nested.nested_tensor([tensor, torch.ones(2)], layout=torch.jagged)
    assert memory(nested) == memory(nested.values())


def test_threads_give_one_number() -> None:
    tensor, found = torch.ones(3), []
    number(tensor)
    threads = [threading.Thread(target=lambda: found.append(number(tensor))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {number(tensor)}
