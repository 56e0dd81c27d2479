"""``seed_all(rm_dropout=True)``: whatever drops values is told to drop them with probability 0.

PyTorch's own schemas say which operators these are, and where the probability stands among their arguments:

    dropout, alpha_dropout, feature_dropout, ...    p
    lstm, gru, rnn_tanh, rnn_relu                   dropout
    scaled_dot_product_attention                    dropout_p

The functions and modules of ``torch.nn`` call them. What TorchScript compiles keeps its dropout.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch

from msprobe.adapters.pytorch.compile_switch import skip_in_dynamo
from msprobe.core.capture.look_alike import name_after_owner
from msprobe.core.log import logger

_OWNERS = (torch, torch._VF, torch._C._nn, torch.nn.functional)


def remove_dropout() -> None:
    """From now until the process ends; a second call changes nothing."""
    for name, argument, positions in _droppers():
        for owner in _OWNERS:
            original = getattr(owner, name, None)
            if callable(original) and not isinstance(original, FunctionType):  # those in Python call the others
                idle = _idle(original, argument, positions)
                name_after_owner(idle, owner, name)
                setattr(owner, name, idle)
                _keep_in_scripts(idle, name)
    logger.info("dropout passes its input through from now on, in recurrent layers and attention too")


def _droppers() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Each public operator that drops, with the argument that says how much and the places where it may stand."""
    found: dict[tuple[str, str], set[int]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != "aten" or name.startswith("_"):
            continue
        for position, argument in enumerate(torch._C._get_schema(f"aten::{name}", overload).arguments):
            if argument.name in ("dropout", "dropout_p") or (argument.name == "p" and "dropout" in name):
                found.setdefault((name, argument.name), set()).add(position)
    for (name, argument), positions in found.items():
        yield name, argument, tuple(sorted(positions, reverse=True))


def _idle(original: Callable[..., Any], argument: str, positions: tuple[int, ...]) -> Callable[..., Any]:
    @functools.wraps(original)
    def idle(*args: Any, **kwargs: Any) -> Any:
        place = _place(args, positions)
        if place is None:
            return original(*args, **{**kwargs, argument: 0.0})
        return original(*args[:place], 0.0, *args[place + 1 :], **kwargs)

    skip_in_dynamo(idle)
    return idle


def _place(args: tuple[Any, ...], positions: tuple[int, ...]) -> int | None:
    """Where the probability stands. Of recurrent layers the later place holds a switch in one of the two forms."""
    given = [place for place in positions if place < len(args) and not isinstance(args[place], bool)]
    return given[0] if given else None


def _keep_in_scripts(idle: Callable[..., Any], name: str) -> None:
    """TorchScript knows its operators by identity, and cannot read what stands for them."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch.jit._builtins import _register_builtin

        _register_builtin(idle, f"aten::{name}")
