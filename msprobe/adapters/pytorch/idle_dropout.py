"""``seed_all(rm_dropout=True)``: operators that drop values get the probability 0.

PyTorch's own schemas say which operators these are, and which of their arguments is the probability:

    dropout, alpha_dropout, feature_dropout, ...    p
    lstm, gru, rnn_tanh, rnn_relu                   dropout
    scaled_dot_product_attention                    dropout_p

The functions and modules of ``torch.nn`` call them. Code that TorchScript compiles keeps its dropout.
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

_OPERATOR_OWNERS = (torch, torch._VF, torch._C._nn, torch.nn.functional)


def remove_dropout() -> None:
    """Replace the operators that drop values, until the process ends; a second call changes nothing."""
    for name, argument, positions in _dropout_operators():
        for owner in _OPERATOR_OWNERS:
            original = getattr(owner, name, None)
            if callable(original) and not isinstance(original, FunctionType):  # those in Python call the others
                replacement = _without_dropout(original, argument, positions)
                name_after_owner(replacement, owner, name)
                setattr(owner, name, replacement)
                _register_in_scripts(replacement, name)
    logger.info("dropout passes its input through from now on, in recurrent layers and attention too")


def _dropout_operators() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield each public operator that drops values: its name, the argument with the probability and its positions."""
    operators: dict[tuple[str, str], set[int]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != "aten" or name.startswith("_"):
            continue
        for position, argument in enumerate(torch._C._get_schema(f"aten::{name}", overload).arguments):
            if argument.name in ("dropout", "dropout_p") or (argument.name == "p" and "dropout" in name):
                operators.setdefault((name, argument.name), set()).add(position)
    for (name, argument), positions in operators.items():
        yield name, argument, tuple(sorted(positions, reverse=True))


def _without_dropout(original: Callable[..., Any], argument: str, positions: tuple[int, ...]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        position = _probability_position(args, positions)
        if position is None:
            return original(*args, **{**kwargs, argument: 0.0})
        return original(*args[:position], 0.0, *args[position + 1 :], **kwargs)

    skip_in_dynamo(call)
    return call


def _probability_position(args: tuple[Any, ...], positions: tuple[int, ...]) -> int | None:
    """Return the position of the probability in ``args``, or None.

    Recurrent layers have two forms; in one of them the later of ``positions`` holds a bool.
    """
    matches = [position for position in positions if position < len(args) and not isinstance(args[position], bool)]
    return matches[0] if matches else None


def _register_in_scripts(replacement: Callable[..., Any], name: str) -> None:
    """Have TorchScript accept ``replacement``: it knows operators by identity, and cannot read this one."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch.jit._builtins import _register_builtin

        _register_builtin(replacement, f"aten::{name}")
