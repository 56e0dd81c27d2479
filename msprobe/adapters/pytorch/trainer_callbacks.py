"""Callbacks for trainers: one step of collection per step of the optimizer.

The classes are created when they are first used, so that only the package of that one is imported.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from msprobe.adapters.pytorch.debugger import PrecisionDebugger
from msprobe.core.dump.session import process_debugger
from msprobe.monitor.either_version import check, watch_training
from msprobe.saved_values.single_save import SingleSave

_DOCUMENTATION = """{text}

    Args:
        config: as for ``PrecisionDebugger``: a path, a dict, or None for the defaults.
        options: as for ``PrecisionDebugger``: ``level``, ``dump_path`` and so on.

    Raises:
        ConfigError: something in the configuration is wrong.
    """


class _TransformersSteps:
    """Start when a step begins and stop when it ends; a resumed training goes on at its own step number."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        self.debugger = PrecisionDebugger(config, **options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step:
            self.debugger.set_init_step(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.debugger.start(model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _record_progress(lambda: _progress(args, state))
        self.debugger.stop()
        self.debugger.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _record_progress(lambda: _progress(args, state, ended=True, stopped=control.should_training_stop))
        self.debugger.stop()


def _record_progress(facts: Callable[[], dict[str, Any] | None]) -> None:
    """Record how far the training is, in the step that is being collected."""
    observer = getattr(getattr(process_debugger.peek(), "current", None), "observer", None)
    if observer is not None:
        observer.training_call("progress", facts, None)


def _progress(args: Any, state: Any, ended: bool = False, stopped: bool = False) -> dict[str, Any] | None:
    """Return how far a training is that counts its steps from epochs; None where the user gave their number."""
    if args.max_steps > 0:
        return None
    done = {"steps": state.global_step, "epochs": state.epoch, "ended": ended, "stopped": stopped}
    return {**done, "planned_steps": state.max_steps, "planned_epochs": float(args.num_train_epochs)}


class _LightningSteps:
    """Start before a training batch, and end the step after the batch with which the optimizer has moved on."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        self.debugger = PrecisionDebugger(config, **options)
        self._optimizer_steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._optimizer_steps = trainer.global_step
        if trainer.global_step:
            self.debugger.set_init_step(trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.debugger.start(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.debugger.stop()
        if trainer.global_step != self._optimizer_steps:
            self._optimizer_steps = trainer.global_step
            self.debugger.step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.debugger.stop()


class _WatchedTraining:
    """Watch the training as a configuration of ``TrainerMon`` or ``TrainerMonitorV2`` says.

    Args:
        config: a path or a dict.

    Raises:
        ConfigError: something in the configuration is wrong.
    """

    def __init__(self, config: Any) -> None:
        check(config)
        self._config = config
        self._stop: Callable[[], None] | None = None

    def _begin(self, model: Any, micro_steps: int, first_step: int) -> None:
        self._end()
        self._stop = watch_training(self._config, "pytorch", model, micro_steps, first_step)

    def _end(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


class _TransformersMonitor(_WatchedTraining):
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._begin(model, args.gradient_accumulation_steps, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()


class _LightningMonitor(_WatchedTraining):
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin(pl_module, trainer.accumulate_grad_batches, trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end()


class _TrlRollouts:
    """Save the completions of a TRL trainer (GRPO, RLOO) with their mask, one step of ``SingleSave`` per step.

    Give it twice: ``GRPOTrainer(reward_funcs=[mine, rollouts.reward], callbacks=[rollouts])``. The reward is None,
    which TRL leaves out.

    Args:
        dump_path: the folder for the saved values.
    """

    def __init__(self, dump_path: str) -> None:
        self.saver = SingleSave(dump_path)

    def reward(self, prompts: Any, completions: Any, completion_ids: Any = None, **_: Any) -> list[None]:
        """Save the ids of completions and their mask, padded to one length; reward nothing."""
        ids = [torch.as_tensor(one) for one in completion_ids or ()]
        if ids:
            padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in ids], batch_first=True)
            self.saver.save({"completion_ids": padded, "completion_mask": mask})
        return [None] * len(completions)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saver.step()


def _transformers_base() -> Any:
    return importlib.import_module("transformers").TrainerCallback


def _lightning_base() -> Any:
    try:
        return importlib.import_module("lightning.pytorch.callbacks").Callback
    except ImportError:  # the package had another name before
        return importlib.import_module("pytorch_lightning.callbacks").Callback


_CALLBACKS = {
    "TransformersCallback": (_TransformersSteps, _transformers_base),
    "LightningCallback": (_LightningSteps, _lightning_base),
    "TransformersMonitor": (_TransformersMonitor, _transformers_base),
    "LightningMonitor": (_LightningMonitor, _lightning_base),
    "TrlCallback": (_TrlRollouts, _transformers_base),
}

if TYPE_CHECKING:
    TransformersCallback = _TransformersSteps
    LightningCallback = _LightningSteps
    TransformersMonitor = _TransformersMonitor
    LightningMonitor = _LightningMonitor
    TrlCallback = _TrlRollouts


def __getattr__(name: str) -> Any:
    if name not in _CALLBACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    steps, base = _CALLBACKS[name]
    text = inspect.getdoc(steps) or ""  # that of its base where it has none of its own
    if "Args:" not in text:
        text = _DOCUMENTATION.format(text=text)
    members = {"__module__": __name__, "__doc__": text}
    callback = globals()[name] = type(name, (steps, base()), members)
    return callback
