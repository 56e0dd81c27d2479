"""``ConfigChecker``: collects the set-up of a running training into a zip file.

    ConfigChecker.apply_patches("pytorch")                          # early: notes random calls from now on
    ConfigChecker(model, ["train.sh"], "./config_check_pack.zip", "pytorch")

Each forward pass of the model is a step, with inputs and weights as the model gets them. The zip file is written after
steps 0, 1, 2, 4, 8, ... and when the program ends. A failure of the check costs facts, never the training.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.containers import items_of, parts_of
from msprobe.core.errors import MsprobeException, argument_text, error_text
from msprobe.core.host import require_local
from msprobe.core.log import first_time, logger
from msprobe.setup_check.collection.environment import collect_environment
from msprobe.setup_check.collection.hyperparameters import (
    COMMAND_LINE,
    command_line_settings,
    library_settings,
    model_settings,
    object_settings,
)
from msprobe.setup_check.collection.watch import SetupWatch
from msprobe.setup_check.document import RandomCall, RankCalls, SetupDocument, StepTensors, TensorFacts
from msprobe.setup_check.job import collect_static
from msprobe.setup_check.pack import update_pack

FRAMEWORKS = {"pytorch": "msprobe.adapters.pytorch.setup_watch", "mindspore": "msprobe.adapters.mindspore.setup_watch"}
_SUFFIX = ".zip"
_SIZE = "world size"
_DEEPEST = 50
"""Arguments below so many containers are not looked at; a container may hold itself."""
_traces: dict[str, RandomTrace] = {}
_checkers: weakref.WeakValueDictionary[Path, ConfigChecker] = weakref.WeakValueDictionary()


class RandomTrace:
    """The random calls of this process by function and place, from ``apply_patches`` to the first forward pass."""

    def __init__(self, watch: SetupWatch) -> None:
        self._stacks = StackTable()
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, int], int] = {}
        self._process = os.getpid()
        self._end = watch.watch_random(self._note)

    def _note(self, function: str) -> None:
        if os.getpid() != self._process:  # a data loader worker
            return
        key = function, self._stacks.capture()
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1

    def end(self) -> list[RandomCall]:
        """Put the functions back as they were, and return what they were called for."""
        self._end()
        return [
            RandomCall(function=function, count=count, stack=self._stacks.text(stack))
            for (function, stack), count in self._counts.items()
        ]


class ConfigChecker:
    """Collects the set-up of a training.

    Args:
        model: the model, or the chunks of one; None collects what does not need one, at once.
        shell_path: the script that starts the training, or a list of scripts and ``.yaml`` files.
        output_zip_path: the zip file; all ranks write into one.
        fmk: ``pytorch`` or ``mindspore``.
        arguments: settings to add, such as ``TrainingArguments``, an ``argparse.Namespace``, a Hydra configuration, or
            a dict of them by name. Megatron's arguments, the job of ``@hydra.main``, and ``model.config`` are found.
        steps: how many forward passes are looked at; all of them by default.

    Raises:
        MsprobeException: an argument is wrong, or a file of ``shell_path`` cannot be read.
    """

    def __init__(
        self,
        model: Any = None,
        shell_path: str | Sequence[str] | None = None,
        output_zip_path: str = "./config_check_pack.zip",
        fmk: str = "pytorch",
        arguments: Any = None,
        steps: int | None = None,
    ) -> None:
        self._watch = _make_watch(fmk)
        given: object = steps
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise _wrong(f"steps is a number of forward passes, got {argument_text(steps)}")
        self._path = _checked_path(output_zip_path)
        self._steps = steps
        self._models = list(model) if isinstance(model, (list, tuple)) else [] if model is None else [model]
        if self._models and not hasattr(self._models[0], "register_forward_pre_hook"):
            raise _wrong(f"model is a model, or a list of its chunks, got {argument_text(model)}")
        self._static = _static_facts(shell_path, arguments, self._models)
        self._process = os.getpid()
        self._random: list[RandomCall] | None = None
        self._new: list[tuple[StepTensors, StepTensors]] = []
        self._step = 0
        self._wrote = False
        self._told: set[tuple[str, str]] = set()
        self._trace = _traces.pop(fmk, None)
        self._take_over()
        self._end = [self._watch.watch_forward(one, self._on_forward) for one in self._models[:1]]
        if not self._models:
            self._write()
        atexit.register(self._finish)

    @classmethod
    def apply_patches(cls, fmk: str = "pytorch") -> None:
        """Note random calls from now on, until the model runs for the first time.

        Raises:
            MsprobeException: the framework is not known.
        """
        if fmk not in _traces:
            _traces[fmk] = RandomTrace(_make_watch(fmk))

    def _take_over(self) -> None:
        """Let a checker give way that writes to the same file: two of them would count each step twice."""
        earlier = _checkers.get(self._path)
        _checkers[self._path] = self
        if earlier is None or not earlier._end or earlier._process != self._process:
            return
        logger.warning("config_check: %s: a second ConfigChecker takes the place of the first", self._path)
        earlier._give_way()
        self._random, self._trace = earlier._random, self._trace or earlier._trace

    def _on_forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Add one step; an exception of ours is a line in the log."""
        if os.getpid() != self._process:  # a child of a fork runs the model, too
            return
        try:
            self._add_step(args, kwargs)
        except Exception as error:  # noqa: BLE001 - a tool never breaks training
            self._log_once("step %d is not recorded: %s", self._step, error_text(error))
        self._step += 1
        if self._steps is not None and self._step >= self._steps:
            self._finish()
        elif self._step & (self._step - 1) == 0:
            self._write()

    def _add_step(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._random is None:
            self._random = [] if self._trace is None else self._trace.end()
        inputs = {**dict(self._values(args, ("args",))), **dict(self._values(kwargs, ("kwargs",)))}
        tensors = {name: facts for name, facts in inputs.items() if facts is not None}
        others = [name for name, facts in inputs.items() if facts is None]
        weights = {}
        for number, model in enumerate(self._models):
            chunk = f"chunk{number}." if len(self._models) > 1 else ""
            weights.update({chunk + name: self._facts(one) for name, one in self._watch.weights(model)})
        rank = self._watch.rank()
        self._new.append((
            StepTensors(step=self._step, rank=rank, tensors=tensors, others=others),
            StepTensors(step=self._step, rank=rank, tensors=weights),
        ))

    def _values(self, value: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, TensorFacts | None]]:
        """Yield the name and facts of each tensor; None for other values, but those of None itself."""
        if self._watch.is_tensor(value):
            yield ".".join(keys), self._facts(value)
        elif len(keys) < _DEEPEST and (isinstance(value, (list, tuple, Mapping)) or parts_of(value) is not None):
            for key, part in items_of(value):
                yield from self._values(part, (*keys, str(key)))
        elif value is not None:
            yield ".".join(keys), None

    def _facts(self, tensor: Any) -> TensorFacts:
        """Return the facts of a tensor; none where it cannot be read, which is no pass in a comparison."""
        try:
            return self._watch.describe(tensor)
        except Exception as error:  # noqa: BLE001 - of the framework, or of a class of the user
            if first_time(f"config_check: {type(tensor).__name__}"):
                logger.warning("config_check: a %s is not measured: %s", type(tensor).__name__, error_text(error))
            return TensorFacts()

    def _log_once(self, text: str, what: object, why: str) -> None:
        """Log an error, once for each reason: every step may meet the same one."""
        if (text, why) not in self._told:
            self._told.add((text, why))
            logger.error("config_check: " + text, what, why)

    def _give_way(self) -> None:
        """Stop looking at the model, and write nothing any more."""
        atexit.unregister(self._finish)
        self._unwatch()
        self._new = []

    def _unwatch(self) -> None:
        for end in self._end:
            with contextlib.suppress(Exception):
                end()
        self._end = []

    def _finish(self) -> None:
        """Stop looking at the model, and write what is not written yet."""
        atexit.unregister(self._finish)
        if os.getpid() != self._process:
            return
        if self._end and not self._step:
            logger.warning(
                "config_check: the model never ran where it can be seen, so inputs and weights are missing; "
                "of a compiled model give the result of the compiler"
            )
        self._unwatch()
        if self._new or self._random is None:
            if self._random is None and self._trace is not None:
                self._random = self._trace.end()
            self._write()

    def _write(self) -> None:
        steps, self._new = self._new, []
        try:
            update_pack(self._path, lambda present: self._document(present, steps))
        except Exception as error:  # noqa: BLE001 - a tool never breaks training
            self._new = [*steps, *self._new]  # the next write may succeed
            self._log_once("%s is not written: %s", self._path, error_text(error))

    def _document(self, present: SetupDocument | None, steps: list[tuple[StepTensors, StepTensors]]) -> SetupDocument:
        """Return the set-up with what this rank has seen; a file of an earlier run is replaced."""
        rank = self._watch.rank()
        facts = self._watch.facts() if present is None or not self._wrote else {}
        if present is not None and not self._wrote and _is_older(present, rank, facts):
            present = None  # the first rank of this run begins anew
        self._wrote = True
        before = present or SetupDocument()
        calls = [one for one in before.random if one.rank != rank]
        if self._random:
            calls.append(RankCalls(rank=rank, calls=self._random))
        return self._static.model_copy(
            update={
                "framework": before.framework or {name: value for name, value in facts.items() if value is not None},
                "data": [*before.data, *(inputs for inputs, _ in steps)],
                "weights": [*before.weights, *(weights for _, weights in steps)],
                "random": sorted(calls, key=lambda one: one.rank),
            }
        )


def _is_older(present: SetupDocument, rank: int, facts: Mapping[str, Any]) -> bool:
    """Return whether a file is of an earlier run: this rank has written it already, or the number of ranks differs."""
    seen = [one.rank for one in present.weights] + [one.rank for one in present.random]
    return rank in seen or present.framework.get(_SIZE) != facts.get(_SIZE)


def _static_facts(shell_path: str | Sequence[str] | None, arguments: Any, models: Sequence[Any]) -> SetupDocument:
    files = [shell_path] if isinstance(shell_path, (str, Path)) else shell_path or ()
    if not isinstance(files, (list, tuple)):
        raise _wrong(f"shell_path is a script or a list of scripts, got {argument_text(shell_path)}")
    static = collect_static([str(file) for file in files])
    environment = {**static.environment, **collect_environment(os.environ)}  # what scripts exported has arrived
    tables = {**static.hyperparameters, **library_settings()}
    if models and (settings := model_settings(models[0])):
        tables["model"] = settings
    if words := command_line_settings():
        tables[COMMAND_LINE] = words
    try:
        if isinstance(arguments, Mapping) and arguments and all(map(_holds_settings, arguments.values())):
            tables.update({str(name): object_settings(one) for name, one in arguments.items()})
        elif arguments is not None:
            tables["arguments"] = object_settings(arguments)
    except Exception as error:
        raise _wrong(f"arguments holds no settings ({error_text(error)}), got {argument_text(arguments)}") from error
    return static.model_copy(update={"hyperparameters": tables, "environment": environment})


def _holds_settings(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "__dict__")


def _make_watch(fmk: str) -> SetupWatch:
    module = FRAMEWORKS.get(str(fmk))
    if module is None:
        raise _wrong(f"fmk is one of {', '.join(FRAMEWORKS)}, got {argument_text(fmk)}")
    make: Callable[[], Any] = importlib.import_module(module).make_watch
    return cast(SetupWatch, make())


def _checked_path(path: str) -> Path:
    require_local(path, "ConfigChecker: output_zip_path")
    if not str(path).endswith(_SUFFIX):
        raise _wrong(f"output_zip_path {path}: give a name that ends in {_SUFFIX}")
    return Path(path).absolute()


def _wrong(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"ConfigChecker: {text}")
