"""Where one run of a process ends and the next one begins: a notebook, or a program that trains several times.

A debugger that is made again may be the same one, asked for from another file, or that of another run. Another folder,
task or level is another run. With the same ones it is another run when completed steps are followed by the start of a
model that this run has not started. A start in a step that another start has left open, after the debugger was made
again or an error was shown (``sys.last_value``), says that the open step was interrupted.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.dump.session.process_debugger import shown_error
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.interruption import ignored
from msprobe.core.log import logger

INTERRUPTED = "interrupted: collecting was started anew before stop() and step()"


class RunBoundary:
    """What the debugger of a process knows of its present run."""

    def __init__(self) -> None:
        self._models: list[weakref.ref[Any]] = []
        self._made_again = False
        self._error = shown_error()

    def make_again(self) -> None:
        """Take note that the debugger was made again, as it is."""
        self._made_again = True

    def start(self, session: Any, model: Any) -> bool:
        """Close the open step where it was interrupted; return whether this start begins another run.

        Args:
            session: the session that is about to start.
            model: what ``start`` was given.
        """
        error, again = shown_error(), self._made_again
        is_new_error, self._error, self._made_again = error is not self._error, error, False
        if not isinstance(session, DumpSession):
            return False
        if session.started and (again or is_new_error):
            self.interrupt(session, error if is_new_error else None)
        known = [ref() for ref in self._models]
        parts = [part for part in _parts(model) if not any(part is one for one in known)]
        other = again and bool(parts) and bool(known) and session.loop > 0 and not session.opened
        if other:
            self._models.clear()
        for part in parts:
            with ignored(TypeError):  # no model: the session says so
                self._models.append(weakref.ref(part))
        return other

    @staticmethod
    def interrupt(session: DumpSession, error: BaseException | None) -> None:
        """Close the step that is open as one that was interrupted."""
        number = session.current_step
        session.fail(error or InterruptedError(INTERRUPTED))
        session.stop()
        session.step()
        what = INTERRUPTED if error is None else f"interrupted by {type(error).__name__}"
        logger.warning("step %d is closed: %s; the next step is %d", number, what, session.current_step)


def is_other_run(config: DumpConfig, present: DumpConfig) -> bool:
    """Return whether a configuration asks for another run than the present one."""
    folders = [Path(one.dump_path).absolute() for one in (config, present)]
    return folders[0] != folders[1] or config.task != present.task or config.level != present.level


def _parts(model: Any) -> Iterator[Any]:
    if isinstance(model, Mapping):
        yield from model.values()
    elif isinstance(model, (list, tuple)):
        yield from model
    elif model is not None:
        yield model
