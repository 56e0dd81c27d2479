"""Hooks on parameters: removed and set again, also where MindSpore has lost them."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.adapters.mindspore.taps.tensor_hooks import ParameterHook, watch
from msprobe.core.capture.thread_state import ThreadState

X = np.ones((2, 4), np.float32)


def gradients(net: Any) -> None:
    mindspore.value_and_grad(net, None, net.trainable_params())(Tensor(X))


def lose_hooks() -> None:
    with pytest.raises(TypeError):
        ops.mul(Tensor(X), [1])


def test_a_hook_that_cannot_be_removed_reports_nothing_and_is_used_again() -> None:
    net = nn.Dense(4, 3)
    first: list[Any] = []
    second: list[Any] = []
    hook = ParameterHook(net.weight, ThreadState(), first.append)
    lose_hooks()
    hook.remove()
    gradients(net)
    assert first == []
    for _ in range(3):
        hook = ParameterHook(net.weight, ThreadState(), second.append)
        gradients(net)
        lose_hooks()
        hook.remove()
    assert len(second) == 3
    assert first == []
    assert len(net.weight.hooks()) == 1


def test_two_hooks_of_one_parameter_report_both() -> None:
    net = nn.Dense(4, 3)
    found: list[str] = []
    hooks = [ParameterHook(net.weight, ThreadState(), lambda _, name=name: found.append(name)) for name in "ab"]
    for _ in range(2):
        gradients(net)
        lose_hooks()
        for hook in hooks:
            hook.remove()
            hook.set()
    assert sorted(found) == ["a", "a", "b", "b"]
    hooks[0].remove()
    gradients(net)
    assert found[4:] == ["b"]


def test_a_value_is_not_watched_any_more_though_mindspore_keeps_the_hook() -> None:
    net = nn.Dense(4, 3)
    found: list[Any] = []
    release = watch(net.weight, ThreadState(), found.append)
    assert release is not None
    gradients(net)
    lose_hooks()
    release()
    gradients(net)
    assert len(found) == 1
