"""Steps of learning rate schedulers, clipping of gradients and text generation: what each call was told and did."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch.optim import lr_scheduler

from msprobe.adapters.pytorch.compile.recompilation import is_traced
from msprobe.adapters.pytorch.taps.parameter_names import unwrapped
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches

_LIMITS = ("max_norm", "clip_value")
_GENERATE = "generate"
_NUMBERS = ("max_new_tokens", "max_tokens")
_ASKED = ("max_new_tokens", "max_length", "max_tokens", "min_new_tokens", "num_return_sequences", "num_beams")


class _Depth(threading.local):
    """How many observed calls of one kind run inside each other in this thread."""

    def __init__(self) -> None:
        self.inside = 0


def scheduler_calls(current: CurrentObserver) -> Patches:
    """Return patches that report each step of a learning rate scheduler with the rates before and after it."""
    patches, depth = Patches(), _Depth()
    for kind in vars(lr_scheduler).values():
        if isinstance(kind, type) and hasattr(kind, "get_last_lr") and callable(vars(kind).get("step")):
            patches.plan(kind, "step", _scheduler_step(vars(kind)["step"], current, depth))
    return patches


def _scheduler_step(original: Callable[..., Any], current: CurrentObserver, depth: _Depth) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        observer = current.observer
        # the constructor of a scheduler makes a step too; a scheduler of schedulers makes theirs
        if observer is None or depth.inside or is_traced() or getattr(self, "_step_count", 1) == 0:
            return original(self, *args, **kwargs)
        optimizer, before, depth.inside = getattr(self, "optimizer", None), _rates(self), 1
        called = getattr(optimizer, "_opt_called", None)
        try:
            result = original(self, *args, **kwargs)
        finally:
            depth.inside = 0
        facts = {"class": type(self).__name__, "rates_before": before, "optimizer_called": called}
        facts["steps"] = getattr(self, "last_epoch", None)
        planned = getattr(self, "total_steps", None)
        facts["planned_steps"] = planned if isinstance(planned, int) else None
        observer.training_call("scheduler_step", lambda: {**facts, "rates_after": _rates(self)}, optimizer)
        return result

    return step


def _rates(scheduler: Any) -> list[float] | None:
    """Return the learning rates of the optimizer of a scheduler as plain numbers."""
    groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", None)
    if not isinstance(groups, list):
        return None
    return [float(group["lr"]) if isinstance(group.get("lr"), (int, float)) else float("nan") for group in groups]


def clipping_facts(
    original: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
) -> dict[str, Any] | None:
    """Return the limit of a clipping and the norm that it found; None where it has no limit."""
    given = _arguments(original, args, kwargs)
    limit = next((given[name] for name in _LIMITS if name in given), None)
    if not isinstance(limit, (int, float)):
        return None
    facts: dict[str, Any] = {"function": original.__name__, "limit": float(limit)}
    norm = given.get("total_norm", result)
    if isinstance(norm, torch.Tensor):
        facts["norm"] = norm
    return facts


def generation_calls(current: CurrentObserver, models: Iterable[torch.nn.Module]) -> Patches:
    """Return patches that report each call of ``generate`` of the models: the tokens asked for, given and returned."""
    patches = Patches()
    kinds = dict.fromkeys(kind for model in models for kind in type(unwrapped(model)).__mro__)
    for owner in kinds:
        for name in _generating(owner):
            patches.plan(owner, name, _generate(vars(owner)[name], current))
    return patches


@lru_cache(maxsize=256)
def _generating(owner: type) -> tuple[str, ...]:
    """Return the methods of a class that generate: those of this name, and those that are told a number of tokens."""
    if owner.__module__.partition(".")[0] in {"torch", "builtins"}:
        return ()
    found = []
    for name, method in vars(owner).items():
        if inspect.isfunction(method) and not name.startswith("__"):
            parameters = inspect.signature(method).parameters
            if name == _GENERATE or not parameters.keys().isdisjoint(_NUMBERS):
                found.append(name)
    return tuple(found)


def _generate(original: Callable[..., Any], current: CurrentObserver) -> Callable[..., Any]:
    depth = _Depth()

    @functools.wraps(original)
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        outermost, depth.inside = not depth.inside, 1
        try:
            result = original(self, *args, **kwargs)
        finally:
            depth.inside = 0 if outermost else 1
        observer = current.observer
        if observer is not None and outermost and not is_traced():
            observer.training_call(_GENERATE, lambda: _generated(original, (self, *args), kwargs, result), None)
        return result

    return generate


def _generated(
    original: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
) -> dict[str, Any] | None:
    given = _arguments(original, args, kwargs)
    said: dict[str, Any] = {}
    for source in (getattr(args[0], "generation_config", None), given.get("generation_config"), given):
        values = source if isinstance(source, Mapping) else vars(source) if source is not None else {}
        for name in _ASKED:
            if isinstance(values.get(name), int) and not isinstance(values[name], bool):
                said[name] = values[name]
    sequences = result if isinstance(result, torch.Tensor) else getattr(result, "sequences", None)
    prompt = next((value for value in given.values() if isinstance(value, torch.Tensor) and _is_tokens(value)), None)
    if sequences is None or not _is_tokens(sequences):
        return None
    said["given"] = 0 if prompt is None else int(prompt.shape[-1])
    said["given_sequences"] = None if prompt is None or prompt.dim() < 2 else int(prompt.shape[0])
    said["returned"] = int(sequences.shape[-1])
    said["returned_sequences"] = None if sequences.dim() < 2 else int(sequences.shape[0])
    said["encoder_decoder"] = bool(getattr(getattr(args[0], "config", None), "is_encoder_decoder", False))
    return said


def _is_tokens(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and value.dim() in (1, 2)


def _arguments(original: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name; those of ``**kwargs`` beside the others."""
    bound = inspect.signature(original).bind_partial(*args, **kwargs)
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return named
