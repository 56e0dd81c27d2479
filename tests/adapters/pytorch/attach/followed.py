"""Follows programs of the tests in this process, with a collection that notes what it is asked for."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping

from torch import nn

from msprobe.adapters.pytorch.attach.attachment import Attachment
from msprobe.core.capture.function_calls import Called


class Notes:
    """Implements ``Collection``: keeps the models of each iteration, and what became of it."""

    subject = "the test"
    event = "noted"

    def __init__(self) -> None:
        self.events: list[str] = []
        self.iterations: list[set[str]] = []
        self.started: list[list[str]] = []
        self.reason = ""
        self._open: set[str] | None = None

    def expect(self) -> None:
        self.events.append("expect")

    def start(self, models: Mapping[str, nn.Module]) -> None:
        self.events.append("start")
        self.started.append(list(models))
        self._open = (self._open or set()) | {
            f"{name}:{type(model).__name__}" if name else type(model).__name__ for name, model in models.items()
        }

    def watch_functions(self, _called: Called) -> bool:
        return False

    def try_out(self) -> bool:
        return False

    def keep(self) -> bool:
        return False

    def leave_out_thread(self, left_out: bool) -> None:
        self.events.append("leave out" if left_out else "leave in")

    def pause(self) -> None:
        self.events.append("pause")

    def forget(self) -> None:
        self.events.append("forget")
        self._open = None

    def complete(self) -> None:
        assert self._open is not None

    def end(self) -> None:
        self.events.append("end")
        assert self._open is not None
        self.iterations.append(self._open)
        self._open = None

    def settle(self) -> None:
        """Do nothing: nothing is read."""

    def conclude(self) -> None:
        self.events.append("conclude")

    def note(self, event: str, **facts: str) -> None:
        """Keep why nothing was recorded."""
        self.reason = facts.get("text", self.reason)

    @property
    def is_open(self) -> bool:
        """Whether an iteration has begun that did not end."""
        return self._open is not None


@contextlib.contextmanager
def followed(model: str | None = None) -> Iterator[Notes]:
    """Follow what runs inside this context; at its end the program is at its end."""
    gc.collect()  # modules and optimizers of earlier tests
    notes = Notes()
    attachment = Attachment(notes, model, notes.note)
    attachment.install()
    try:
        yield notes
    finally:
        attachment.finish()
        attachment.conclude()
        attachment.remove()
