"""Operators in compiled graphs that report module calls without a graph break.

Dynamo traces ``observe``, which leaves ``enter`` and ``leave`` in the graph. Where the graph runs as it is (backend
``eager``) they report the call directly. Where it is traced further, ``enter`` and ``leave`` become operators with an
ordered effect whose results no computation uses, so nothing is copied or dropped; each takes the result of the one
before, so none is reordered. The gradient tap hangs its hooks on the autograd nodes of the trace, so the gradient
operators land in the backward graph beside the computation, and no sum is taken in another order. A ticket, made by
``enter`` at run time and saved for the backward graph, tells which call a gradient belongs to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS, module_numbers
from msprobe.adapters.pytorch.compile.value_transport import DEPTH_LIMIT, is_trace, plain

_SCHEMAS = {
    "enter": "enter(Tensor[] values, SymInt[] numbers, int key) -> Tensor",
    "leave": "leave(Tensor[] values, SymInt[] numbers, Tensor ticket, int key) -> Tensor",
    "gradient": "gradient(Tensor[] values, Tensor ticket, int key, int position) -> ()",
}


def observe(original: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``module`` in the form that Dynamo traces, with operators before and after."""
    number = module_numbers.get(id(module))
    if number is None:
        return original(module, *args, **kwargs)
    positional = [plain(value, DEPTH_LIMIT) for value in args]
    ticket = enter(number, positional, {key: plain(value, DEPTH_LIMIT) for key, value in kwargs.items()})
    result = original(module, *args, **kwargs)
    leave(number, ticket, _results(result))
    return result


def _results(result: Any) -> Any:
    """Return the results of a call in a form that a graph takes; those of a tuple stay several."""
    if isinstance(result, tuple):
        return tuple([plain(value, DEPTH_LIMIT) for value in result])
    return plain(result, DEPTH_LIMIT)


def observe_function(original: Any, number: int, in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function in the form that Dynamo traces, with operators before and after.

    Args:
        original: the function.
        number: by which it is known.
        in_place: whether its results are in its arguments.
        args, kwargs: its arguments; process groups stand for their names.
    """
    positional = [_named_group(value) for value in args]
    named = {key: _named_group(value) for key, value in kwargs.items()}
    ticket = enter(number, positional, named)
    result = original(*args, **kwargs)
    leave(number, ticket, [*positional, *named.values()] if in_place else _results(result))
    return result


def _named_group(value: Any) -> Any:
    name = value.group_name if isinstance(value, torch.distributed.ProcessGroup) else value
    return plain(name, DEPTH_LIMIT)


def enter(number: int, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    """Begin a call inside the graph, and return its ticket, an int64 scalar on the CPU."""
    if is_trace((args, kwargs)):
        ticket = CALLS.stage_enter(number, args, kwargs)
        return _ticket(0) if ticket is None else ticket
    return _ticket(CALLS.begin(number, args, kwargs) or 0)


def leave(number: int, ticket: torch.Tensor, result: Any) -> None:
    """End a call inside the graph."""
    if is_trace((result, ticket)):
        CALLS.stage_leave(number, ticket, result)
    else:
        CALLS.end(CALLS.number(ticket), result)


def define_operators() -> torch.library.Library:
    """Define the operators and return their library; they exist as long as it does."""
    library = torch.library.Library("msprobe", "DEF")
    try:
        _define_in(library)
    except BaseException:
        library._destroy()  # torch has one library of a name: the next attempt makes it
        raise
    return library


def _define_in(library: torch.library.Library) -> None:
    for name, (real, fake) in {
        "enter": (_enter, lambda values, numbers, key: _traced_ticket()),
        "leave": (_leave, lambda values, numbers, ticket, key: _traced_ticket()),
        "gradient": (_gradient, lambda values, ticket, key, position: None),
    }.items():
        library.define(_SCHEMAS[name], tags=(torch.Tag.cudagraph_unsafe, torch.Tag.flexible_layout))
        library.impl(name, real, "CompositeExplicitAutograd")
        torch.library.register_fake(f"msprobe::{name}", fake, lib=library)
        library._register_effectful_op(f"msprobe::{name}", torch.library.EffectType.ORDERED)


def _enter(values: list[torch.Tensor], numbers: list[int], key: int) -> torch.Tensor:
    return _ticket(CALLS.run_enter(values, numbers, key) or 0)


def _leave(values: list[torch.Tensor], numbers: list[int], ticket: torch.Tensor, key: int) -> torch.Tensor:
    CALLS.run_leave(values, numbers, CALLS.number(ticket), key)
    return _ticket(0)


def _gradient(values: list[torch.Tensor], ticket: torch.Tensor, key: int, position: int) -> None:
    CALLS.run_gradient(values, CALLS.number(ticket), key, position)


def _traced_ticket() -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device="cpu")


def _ticket(number: int) -> torch.Tensor:
    return torch._C._VariableFunctions.scalar_tensor(number, dtype=torch.int64, device="cpu")
