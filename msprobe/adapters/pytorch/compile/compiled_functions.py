"""Functions given to ``torch.compile``: the modules that they call, found before they are compiled.

Inside compiled code no call passes through Python, so a model that is called there only is not seen. But the function
names what it uses: its arguments, the object that it is a method of, variables around it, global names and attributes.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from msprobe.core.interruption import imported_whole

_DEPTH = 3
"""How many functions lie between the compiled one and the call of the model at most."""
_FUNCTIONS = (types.FunctionType, types.MethodType)
_NOT_OF_THE_PROGRAM = ("torch.", "msprobe.")


def watched_compile(
    original: Callable[..., Any],
    watch: Callable[..., Any],
    skip: Callable[[Any], Any],
    originals: Callable[[], AbstractContextManager[None]],
) -> Any:
    """Return a function to stand for ``torch.compile``, whose compiled functions report their calls.

    Args:
        original: ``torch.compile``.
        watch: ``watch(function, compiled)`` returns what to call in place of a compiled function.
        skip: keeps Dynamo from compiling what it is given.
        originals: puts the methods of modules back meanwhile: those of torch are compiled in another way than those of
            the program.
    """

    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda decorated: compile(decorated, **options)
        with originals():
            compiled = original(model, **options)
        if isinstance(model, nn.Module) or inspect.isclass(model) or not callable(compiled):
            return compiled
        watched = functools.update_wrapper(watch(model, compiled), compiled)
        skip(watched)
        return watched

    return compile


def modules_used(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[nn.Module]:
    """Yield the modules that a call of a function may call, in the order in which it names them."""
    seen: set[int] = set()
    for module in _used(function, (*args, *kwargs.values()), _DEPTH):
        if id(module) not in seen:
            seen.add(id(module))
            yield module


def _used(function: Any, arguments: tuple[Any, ...], depth: int) -> Iterator[nn.Module]:
    yield from (value for value in arguments if isinstance(value, nn.Module))
    while isinstance(function, functools.partial):
        yield from (value for value in (*function.args, *function.keywords.values()) if isinstance(value, nn.Module))
        function = function.func
    function = inspect.unwrap(function)
    owner, function = getattr(function, "__self__", None), getattr(function, "__func__", function)
    if isinstance(owner, nn.Module):
        yield owner
    if isinstance(function, types.FunctionType):
        names = {**function.__globals__, **_variables_around(function)}
        for value in _named(function.__code__, names, (owner, *arguments)):
            yield from _module_or_used(value, depth)


def _module_or_used(value: Any, depth: int) -> Iterator[nn.Module]:
    """Yield a module, or the modules that a function of the program uses."""
    if isinstance(value, nn.Module):
        yield value
    elif depth and isinstance(value, _FUNCTIONS) and not str(value.__module__).startswith(_NOT_OF_THE_PROGRAM):
        yield from _used(value, (), depth - 1)


def _variables_around(function: types.FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}  # an empty one has none


def _named(code: types.CodeType, names: dict[str, Any], owners: tuple[Any, ...]) -> Iterator[Any]:
    """Yield what the names in a piece of code stand for: variables, and attributes of the object and the arguments."""
    for name in (*code.co_freevars, *code.co_names):
        if name in names:
            yield names[name]
        for owner in owners:
            yield from _attribute(owner, name)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(constant, names, owners)


def _attribute(owner: Any, name: str) -> Iterator[Any]:
    """Yield an attribute of an object of the program, without running code of it."""
    if isinstance(owner, nn.Module) or owner is None:
        return
    own = getattr(owner, "__dict__", {})
    if name in own:
        yield own[name]
    elif isinstance(method := vars(type(owner)).get(name), types.FunctionType):
        yield types.MethodType(method, owner)


def compiled_code_ran() -> bool:
    """Return whether compiled code has run in this process."""
    utils = imported_whole("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"]["ok"])
