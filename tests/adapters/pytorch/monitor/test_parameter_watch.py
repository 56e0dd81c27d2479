"""Facts of parameters that an optimizer holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.monitor.parameter_watch import ParameterGroups  # noqa: E402

pytestmark = pytest.mark.torch


def parameters(count: int) -> list[Any]:
    return [torch.nn.Parameter(torch.ones(2)) for _ in range(count)]


def test_each_parameter_has_its_group_as_it_is_now() -> None:
    first, second, later, foreign = (parameters(2) for _ in range(4))
    optimizer = torch.optim.AdamW([{"params": first, "lr": 0.1}, {"params": second, "lr": 0.2}])
    groups = ParameterGroups()

    def rate(parameter: Any) -> Any:
        group = groups.of(optimizer, parameter)
        return None if group is None else group["lr"]

    assert [rate(one) for one in (*first, *second, *foreign)] == [0.1, 0.1, 0.2, 0.2, None, None]
    optimizer.param_groups[0]["lr"] = 0.5  # a scheduler
    assert rate(first[1]) == 0.5
    optimizer.add_param_group({"params": later, "lr": 0.3})
    assert rate(later[1]) == 0.3
    other = torch.optim.SGD(first, lr=0.7)
    found = groups.of(other, first[0])
    assert found is not None and found["lr"] == 0.7
    assert rate(first[0]) == 0.5
    wrapped = groups.of(SimpleNamespace(optimizer=optimizer), second[0])
    assert wrapped is not None and wrapped["lr"] == 0.2


def test_a_parameter_that_takes_the_place_of_another_is_found() -> None:
    old, new = parameters(1), parameters(1)
    optimizer, groups = torch.optim.SGD(old, lr=0.1), ParameterGroups()
    assert groups.of(optimizer, old[0]) is optimizer.param_groups[0]
    optimizer.param_groups[0]["params"][0] = new[0]
    assert groups.of(optimizer, new[0]) is optimizer.param_groups[0]
    assert groups.of(optimizer, old[0]) is None
