"""What every command owes its user whatever it is given: a status, lines, an end, and no file out of place."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from msprobe.cli.main import run
from msprobe.core.errors import MsprobeException
from tests.cli.hostile import Inputs

LISTING = {"validate", "doctor", "answers", "noise"}
"""Commands that list what is wrong instead of one error."""
MOST_MEMORY = 1_500_000
"""Kilobytes that the process may grow by."""
LONGEST = 30
"""Seconds for one command."""
Action = list[str] | Callable[[], object]
"""The words of a command, or a function of Python that a user calls; paths are below the folder of the inputs."""


class TooLongError(BaseException):
    """A command has run longer than ``LONGEST``."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """End a command that takes too long, and fail where it took too much memory."""

    faulthandler.dump_traceback_later(2 * LONGEST, exit=True)  # C code may not return to the handler of the signal

    def end(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    earlier = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_MEMORY, f"{grown} kB more than before"


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Work in a folder, and afterwards where the process was before."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def ends_well(action: Action, inputs: Inputs) -> tuple[int, str]:
    """Run a command in the folder of the inputs, and look at what it says and at everything around it.

    Return its status, and its error line where there is one.
    """
    before = {path: path.read_bytes() for path in inputs.files() if not path.is_symlink()}
    out, err = io.StringIO(), io.StringIO()
    with in_folder(inputs.root), bounded(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(action) if isinstance(action, list) else _called(action)
    said = out.getvalue() + err.getvalue()
    assert status in (0, 1, 2, 3), (status, said)
    assert "Traceback" not in said, said
    errors = [line for line in err.getvalue().splitlines() if line.startswith("msprobe: error: ")]
    told = errors or status < 2 or not isinstance(action, list) or action[0] in LISTING
    assert len(errors) <= 1 and told, said
    assert [path.name for path in (inputs.root / "outside").iterdir()] == ["mine"]
    assert (inputs.root / "outside" / "mine").read_text() == "mine"
    assert {path: path.read_bytes() for path in before} == before
    return status, "".join(errors)


def _called(action: Callable[[], object]) -> int:
    try:
        action()
    except (MsprobeException, OSError) as error:
        assert str(error)
        return 2
    return 0
