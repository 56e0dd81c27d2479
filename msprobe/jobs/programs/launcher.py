"""A program of the user, started and waited for by ``msprobe run``; afterwards, why nothing was recorded.

The launcher stays as the parent of the program. It hands on signals that are sent to it alone, and ends as the program
did. The processes of the program leave lines of JSON (``bootstrap/sitecustomize.py:note``), from which it knows more
than any of them: whether one of them came as far as recording, and what stopped the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.log import logger
from msprobe.jobs.programs.attached_program import AttachedProgram

_HANDED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_AWAITED = _HANDED_ON | {signal.SIGCHLD}
_POLL_S = 1.0  # how late the end of the program is seen at most, where its signal was lost
_CLOCKS_DIFFER_S = 1.0
_PR_SET_PDEATHSIG = 1
_SELECTING_KEYS = ("step", "rank", "dump_enable", "disk_budget", "time_budget", "scope", "list", "ring", "sample")


@dataclass(frozen=True, slots=True)
class Events:
    """What the processes of a program noted, in order.

    Attributes:
        lines: each with ``event`` and ``process``.
    """

    lines: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, path: Path) -> Events:
        """Return the events of a file; a line that a killed process did not finish is left out."""
        lines = []
        with contextlib.suppress(OSError):
            for text in path.read_text("utf-8", "replace").splitlines():
                with contextlib.suppress(ValueError):
                    lines.append(json.loads(text))
        return cls(tuple(line for line in lines if isinstance(line, dict)))

    def of(self, event: str) -> list[Mapping[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in self.lines if line.get("event") == event]

    @property
    def script_records(self) -> bool:
        """Whether the program makes a debugger of its own, which is left in charge."""
        return bool(self.of("own debugger")) or "msprobe.mindspore" in self._loaded()

    def _loaded(self) -> set[str]:
        return {name for line in self.of("end") for name in line.get("loaded", ())}

    def why_nothing(self) -> str:
        """Return why no process recorded anything, as a part of a sentence."""
        reasons = list(dict.fromkeys(str(line.get("text")) for line in self.of("reason")))
        if reasons:
            return "; ".join(reasons[-2:])
        if not self.of("start"):
            return (
                "no Python process of the program loaded msprobe; python -I, -E and -S and a program that clears "
                "PYTHONPATH switch it off: make a PrecisionDebugger in the script"
            )
        if not self.of("torch"):
            loaded = self._loaded()
            if "mindspore" in loaded:
                return "it attaches to PyTorch only; make a PrecisionDebugger of msprobe.mindspore in the script"
            if "torch" in loaded:
                return "torch was imported past msprobe, by an import hook of the program; make a PrecisionDebugger"
            return (
                "the program did not import torch, or in processes alone that did not load msprobe: python -I, -E and "
                "-S and a program that clears PYTHONPATH switch it off"
            )
        return "the program ended before a model was called"


def run(program: AttachedProgram) -> int:
    """Run a program to its end, with the terminal and the files of this process.

    Returns:
        its exit status; below 0, the signal that ended it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    parent = os.getpid()

    def prepare() -> None:
        _end_with_parent(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        process = subprocess.Popen(
            program.arguments,
            executable=program.executable,
            env=program.environment,
            close_fds=False,  # what this process was given to hand on, it hands on
            preexec_fn=prepare,
        )
        while process.poll() is None:
            received = signal.sigtimedwait(_AWAITED, _POLL_S)
            # What the kernel sends (si_code above 0), such as Ctrl-C, goes to the program itself as well.
            if received is not None and received.si_signo in _HANDED_ON and received.si_code <= 0:
                process.send_signal(received.si_signo)
        return process.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(parent: int) -> None:
    """Let the program end where the launcher is killed, as when it was the same process."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def end_as(status: int) -> int:
    """Return the exit status for the status of a program; a signal that ended it ends this process too."""
    if status >= 0:
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return 128 - status


@contextlib.contextmanager
def events_file() -> Iterator[Path]:
    """Yield the file to which the processes of a program write their events; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="msprobe-run-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "events.jsonl"


def say_what_is_missing(events: Events, config: DumpConfig | None, since: float, *, monitor: bool) -> None:
    """Log a line where the program recorded nothing, or was not watched, and the reason.

    Args:
        events: what its processes noted.
        config: what was to be recorded; None for nothing.
        since: the time of its start, in seconds of ``time.time``.
        monitor: whether it was to be watched.
    """
    if events.script_records:
        return
    if config is not None and not _wrote_since(config.dump_path, since):
        logger.warning("msprobe run: nothing was recorded: %s", _unrecorded(events, config))
    if monitor and not events.of("watched"):
        logger.warning("msprobe run: nothing was watched: %s", events.why_nothing())


def _unrecorded(events: Events, config: DumpConfig) -> str:
    attached = events.of("attached")
    if not attached:
        return events.why_nothing()
    model = attached[-1].get("model")
    steps = max((int(line.get("steps", 0)) for line in events.of("steps")), default=0)
    selecting = [key for key in _SELECTING_KEYS if key in _set_keys(config)]
    if not selecting:
        return f"{model} was called and {steps} steps ended, but nothing could be written; see the lines above"
    return (
        f"{steps} steps of {model} ended, and none of them is what the configuration asks for ({', '.join(selecting)})"
    )


def _set_keys(config: DumpConfig) -> set[str]:
    return {key for part in (config, config.section) for key in part.model_fields_set if getattr(part, key, None)}


def _wrote_since(dump_path: str | None, started: float) -> bool:
    """Return whether a folder or file of a dump has changed; True also where no folder is named."""
    if not dump_path:
        return True
    since = started - _CLOCKS_DIFFER_S
    with contextlib.suppress(OSError):
        return any(path.lstat().st_mtime >= since for form in ("*", "*/*") for path in Path(dump_path).glob(form))
    return True


def launch(program: AttachedProgram, config: DumpConfig | None, *, monitor: bool) -> int:
    """Run a program, say what is missing of its record, and end as it did.

    Returns:
        the exit status. Where a signal ended the program, the same signal ends this process.
    """
    started = time.time()
    with events_file() as path:
        status = run(program.with_events(path))
        say_what_is_missing(Events.read(path), config, started, monitor=monitor)
    return end_as(status)
