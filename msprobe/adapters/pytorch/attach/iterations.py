"""Where the iterations of a training end (docs/adr/0030).

An *update* is the step of an optimizer, or parameters that the program changes or gradients that it clears by itself.
An iteration ends after an update when every optimizer of the program has made one in it; or else before the program,
after an update, comes back to a call that it made before that update: the same model, the same ``zero_grad``, or the
same ``step(closure)``, called from the same place. What is called there may also be another one than in the whole
iteration before: then models are trained one after the other.

An optimizer of all parameters that calls the model itself (``LBFGS``) makes a whole iteration with each step, whatever
other optimizers there are.

An iteration that the program gives up before its backward pass (``continue``, where a loss is not finite) ends where
gradients are cleared, or a batch is fetched, at a place at which iterations with an update began, each with one visit.
What is called before an optimizer is made, and called again before any backward pass, was there to try the model out.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from msprobe.adapters.pytorch.attach.module_tree import differentiated, parameters_in
from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes

Site = tuple[int, ...]
"""Where a call is made: the code and the position of each frame, from the call to the beginning of the program."""
MOST_LEAVES = 16
"""Of how many parameters changes are looked for."""
_OWN = f"{Path(__file__).parents[3]}{os.sep}"
_any, _item = torch._C.TensorBase.any, torch._C.TensorBase.item  # ``Tensor.any`` may be recorded
_norm: Any = torch._C._linalg.linalg_vector_norm


def call_site() -> Site:
    """Return the place in the program from which a call comes, without what stands for functions of it."""
    frame: Any = sys._getframe(1)
    place: list[int] = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OWN):
            place += (id(frame.f_code), frame.f_lasti)
        frame = frame.f_back
    return tuple(place)


class Iterations:
    """The present iteration.

    Attributes:
        went_backward: whether gradients were computed in it.
        ended_by: what ended the last one, as a clause; None before.
    """

    def __init__(self) -> None:
        self.went_backward = False
        self.ended_by: str | None = None
        self._complete = False  # an update has ended it
        self._updated: set[int] = set()
        self._called: set[int] = set()
        self._parts: set[int] = set()
        self._tried: set[int] = set()  # called before an optimizer was made, and no backward pass since
        self._before: set[tuple[int, Site]] = set()  # calls that were made before the last update
        self._since: set[tuple[int, Site]] = set()
        self._ahead: set[tuple[int, Site]] = set()  # made since the end of the last iteration
        self._behind: set[tuple[int, Site]] = set()  # first made behind an update of this iteration
        self._rounds: set[tuple[int, Site]] = set()  # those of them that are made again inside of an iteration
        self._last: dict[Site, set[int]] = {}  # what the last iteration called before an update, by place
        self._entries: set[tuple[int, Site]] = set()  # made since the end of the last iteration, before this one
        self._beginnings: set[tuple[int, Site]] = set()  # the entries of all iterations with an update
        self._loops: set[tuple[int, Site]] = set()  # the entries that were made again in one iteration
        self._parameters = ChangesByHand()
        self._given: dict[tuple[int, Site], list[_Seen]] = {}  # what a transform differentiated by, by call
        # where the first function was called, and with which leaves
        self._first_leaves: tuple[Site, list[weakref.ref[torch.Tensor]]] = (), []

    def begin(self) -> None:
        """Begin the next iteration."""
        self.went_backward = self._complete = False
        self._updated.clear()
        self._behind.clear()
        self._called = set()
        self._parts.clear()
        self._tried = set()
        if self._before:
            self._beginnings |= self._entries
            self._last = {}
            for owner, site in self._before:
                self._last.setdefault(site, set()).add(owner)
        self._before.clear()
        self._since, self._ahead = self._ahead, set()
        self._entries = set(self._since)
        self._parameters = ChangesByHand()

    @property
    def updates(self) -> bool:
        """Whether an optimizer has made an update in it."""
        return bool(self._updated)

    def updated(self, optimized: bool) -> bool:
        """Return whether there was an update; ``optimized``: whether the program has an optimizer."""
        return bool(self._updated) or self._parameters.happened(optimized)

    def called(self) -> set[int]:
        """Return the ids of the models that were called in this iteration."""
        return self._called

    def has_called(self, part: nn.Module) -> bool:
        """Return whether a model, or this part of one, was called in this iteration."""
        return id(part) in self._parts

    def optimizer_made(self) -> None:
        """Take note that an optimizer is made: what was called so far may have been there to try it out."""
        self._tried = set() if self.went_backward else set(self._called)

    def was_tried(self, model: nn.Module) -> bool:
        """Return whether a model, which is called now, was called before an optimizer was made, and not since, in an
        iteration without a backward pass."""
        return id(model) in self._tried and not self.went_backward

    def is_repeated(self, model: nn.Module, site: Site) -> bool:
        """Return whether this call was made before in this iteration."""
        return (id(model), site) in self._since or (id(model), site) in self._before

    def call(self, model: nn.Module, part: nn.Module, site: Site) -> None:
        """Take note of a call of a model, or of a part of it, that belongs to this iteration."""
        self._called.add(id(model))
        self._parts.add(id(part))
        self._tried.discard(id(model))
        self.note(model, site)
        given = [_Seen(weakref.ref(one), one._version, None) for one in differentiated(model)[:MOST_LEAVES]]
        if given:
            self._given[id(model), site] = given

    def note(self, owner: Any, site: Site) -> None:
        """Take note of a call in this iteration."""
        call = id(owner), site
        if call in self._behind:
            self._rounds.add(call)
        elif self._updated and call not in self._before and call not in self._since:
            self._behind.add(call)
        self._since.add(call)

    def begin_with(self, site: Site, leaves: Iterable[torch.Tensor]) -> None:
        """Take note of the leaves that the first function of the iteration is called with."""
        self._first_leaves = site, [weakref.ref(one) for one in leaves]

    def begins_with_others(self, site: Site, leaves: Iterable[torch.Tensor]) -> bool:
        """Return whether a function is called from the place at which the iteration began, with other leaves: with
        parameters that the program has made anew."""
        place, leaves_before = self._first_leaves
        before = {id(one()) for one in leaves_before}
        others = place == site and bool(leaves_before) and before.isdisjoint(map(id, leaves))
        if others:
            self._ended_by("before a function is called from the same place again with parameters that are made anew")
        return others

    def ahead(self, owner: Any, site: Site) -> None:
        """Take note of a call that may belong to the next iteration, which has not begun."""
        self._ahead.add((id(owner), site))

    def forget(self) -> None:
        """Take the calls of this iteration for such as may belong to the next one."""
        self._ahead |= self._since

    def watch(self, model: nn.Module, optimized: bool) -> None:
        """Look for changes by hand of a model that is trained; ``optimized``: whether there is an optimizer."""
        self._parameters.watch(model, optimized)

    def look_at(self, tensors: Iterable[torch.Tensor]) -> None:
        """Look for changes by hand of what the program has just differentiated by."""
        self._parameters.look_at(tensors)

    def comes_back(self, owner: Any, site: Site, optimized: bool, method: str = "") -> bool:
        """Return whether a call is the first of the next iteration.

        Args:
            owner: the model that is called, or whose gradients are cleared; or an optimizer that clears them, or is
                given what calls the model; None for a function in a program that calls no model.
            site: where.
            optimized: whether there is an optimizer.
            method: what is called of it, with a dot in front.
        """
        call = id(owner), site
        if self.goes_round(owner, site):
            return False
        name = "a function" if owner is None else f"{type(owner).__name__}{method}"
        if self._is_repeated_in(self._before, call):
            self._ended_by(f"before {name} is called from the same place again after an update")
            return True
        if self._is_repeated_in(self._since, call) and (
            self._parameters.happened(optimized) or (not optimized and self._is_given_others(owner, call))
        ):
            self._ended_by(
                f"before {name} is called from the same place again after the program itself has "
                "changed parameters or cleared gradients"
            )
            return True
        return False

    def goes_round(self, owner: Any, site: Site) -> bool:
        """Return whether a call is made again in a loop inside of the iteration: its first one came behind an update,
        and no iteration before was without it (a model that is trained after another one begins in the last iteration
        of that), or this was so in an earlier one."""
        call = id(owner), site
        return call in self._behind and (not self._last or call in self._rounds)

    def _is_given_others(self, owner: Any, call: tuple[int, Site]) -> bool:
        """Return whether a transform of ``torch.func`` differentiates by other values than in the call before."""
        before, given = self._given.get(call, ()), differentiated(owner) if isinstance(owner, nn.Module) else []
        pairs = zip(before, given, strict=False)
        return any(seen.parameter() is not one or seen.has_changed() for seen, one in pairs)

    def is_given_up(self, owner: Any, site: Site) -> bool:
        """Return whether a call that is none of a model comes after an iteration that has no backward pass. Before any
        has one, this is known of gradients that are cleared: batches may be fetched in a loop."""
        call = id(owner), site
        if call not in self._entries:
            return False
        begins = call in self._beginnings or (owner is not None and not self._beginnings)
        if call in self._loops or not begins or self.went_backward or self._before:
            self._loops.add(call)
            return False
        return True

    def _ended_by(self, clause: str) -> None:
        if not self._complete:
            self.ended_by = clause

    def is_looked_at(self, model: nn.Module) -> bool:
        """Return whether a call of a model without autograd, in a program without an optimizer, looks at what the
        program has trained by hand."""
        if not self.went_backward or not self._parameters.happened(False):
            return False
        self.ended_by = (
            f"before {type(model).__name__} is called without autograd after the program itself has changed parameters "
            "or cleared gradients"
        )
        return True

    def _is_repeated_in(self, calls: set[tuple[int, Site]], call: tuple[int, Site]) -> bool:
        """Return whether a call is among others, or takes the place of one that was alone in the last iteration."""
        owner, site = call
        last = self._last.get(site, set())
        return call in calls or (owner not in last and any((other, site) in calls for other in last))

    def backward(self) -> None:
        """Take note that gradients were computed."""
        self.went_backward = True
        self._parameters.backward()

    def update(self, optimizers: Iterable[int], training: dict[int, str], *, whole: bool = False) -> bool:
        """Take note of an update; return whether it ends the iteration.

        Args:
            optimizers: the ids of those that made it.
            training: the ids and classes of all optimizers that train something.
            whole: whether it was a whole iteration: of an optimizer of all parameters that has called the model itself.
        """
        self._updated.update(optimizers)
        self._before |= self._since
        self._since.clear()
        self._parameters.settle()
        if whole:
            training = {one: training[one] for one in optimizers if one in training}
        if not self._updated.issuperset(training):
            return False
        names = " and ".join(sorted(set(training.values()))) or "the optimizer"
        each = f"each of {len(training)} optimizers ({names})" if len(training) > 1 else names
        self.ended_by = f"when {each} has made a step"
        self._complete = True
        return True


class _Seen(NamedTuple):
    """A parameter as it was: its version, and its norm where that was read."""

    parameter: weakref.ref[torch.Tensor]
    version: int
    norm: float | None

    def has_changed(self) -> bool:
        """Return whether the parameter is another one now, or has other values."""
        present = self.parameter()
        if present is None or present._version != self.version:
            return True
        return self.norm is not None and _is_readable(present) and self.norm != _norm_of(present)


class ChangesByHand:
    """Parameters that the program changes, and gradients that it clears after a backward pass, without an optimizer.

    Of each model a few parameters are looked at: their versions, and whether the gradients of a backward pass are
    still there. Values are read only of gradients that were changed, or in a program without an optimizer, because
    ``parameter.data.sub_(...)`` and ``gradient.data.zero_()`` make no new version.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._models: set[int] = set()
        self._left: set[tuple[int, int]] | None = None  # the gradients that a backward pass has left

    def watch(self, model: nn.Module, optimized: bool) -> None:
        """Look at the parameters of a model too, as they are now, but for those that another one has, as a model that
        this one is a part of."""
        if id(model) in self._models:
            return
        self._models.add(id(model))
        own = (one for one in parameters_in(model) if one.requires_grad)
        self.look_at((one for one in own if not self._is_seen(one)), optimized)

    def _is_seen(self, parameter: torch.Tensor) -> bool:
        seen = self._seen.get(id(parameter))
        return seen is not None and seen.parameter() is parameter

    def look_at(self, parameters: Iterable[torch.Tensor], optimized: bool = False) -> None:
        """Look at parameters, as they are now."""
        for one in itertools.islice((one for one in parameters if not _is_fixed(one)), MOST_LEAVES):
            self._seen[id(one)] = _Seen(weakref.ref(one), one._version, None if optimized else _norm_of(one))

    def settle(self) -> None:
        """Take what an optimizer has changed as it is."""
        present = [(key, one) for key, seen in self._seen.items() if (one := seen.parameter()) is not None]
        self._seen = {key: _Seen(self._seen[key].parameter, one._version, None) for key, one in present}
        self._left = None

    def backward(self) -> None:
        """Take note that a backward pass has ended."""
        self._left = {_state(one) for one in self._gradients()} or self._left

    def happened(self, optimized: bool) -> bool:
        """Return whether parameters were changed or gradients cleared since the beginning, or since ``settle``.

        Args:
            optimized: whether the program has an optimizer.
        """
        if any(seen.has_changed() for seen in self._seen.values()):
            return True
        if self._left is None:
            return False
        present = self._gradients()
        if optimized and any(_state(one) in self._left for one in present):
            return False
        return all(_is_readable(one) and not _read(_any, one) for one in present)

    def _gradients(self) -> list[torch.Tensor]:
        parameters = [seen.parameter() for seen in self._seen.values()]
        return [one.grad for one in parameters if one is not None and one.grad is not None]


def _is_fixed(parameter: torch.Tensor) -> bool:
    """Return whether a parameter has no values yet, or was made in inference mode, where nothing is trained and no
    version is kept."""
    return nn.parameter.is_lazy(parameter) or parameter.is_inference()


def _state(gradient: torch.Tensor) -> tuple[int, int]:
    return id(gradient), gradient._version


def _norm_of(parameter: torch.Tensor) -> float | None:
    """Return a number that other values would not have; None for NaN, and where it cannot be read here and now."""
    if not (_is_readable(parameter) and parameter.dtype.is_floating_point) or parameter.device.type == "mps":
        return None  # mps has no float64, without which a small update of many elements would be lost
    norm = float(_read(_norm, parameter, dtype=torch.float64))
    return None if math.isnan(norm) else norm


def _is_readable(tensor: torch.Tensor) -> bool:
    """Return whether the values of a tensor can be read here and now."""
    runtime: Any = getattr(torch, tensor.device.type, None)
    capturing = getattr(runtime, "is_current_stream_capturing", None)
    plain = type(tensor) in {torch.Tensor, nn.Parameter} and not tensor.is_sparse and not tensor.is_meta
    return plain and not (capturing is not None and capturing())


def _read(function: Callable[..., torch.Tensor], tensor: torch.Tensor, **options: Any) -> Any:
    with outside_modes():
        return _item(function(tensor, **options))
