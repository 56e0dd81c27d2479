"""A program of the user, as ``msprobe run`` starts it: its processes attach themselves when they import torch."""

from __future__ import annotations

import getopt
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe.core.errors import InterfaceError

_BOOTSTRAP = Path(__file__).parents[2] / "bootstrap"
_REQUEST = "MSPROBE_RUN"
_EVENTS = "MSPROBE_RUN_EVENTS"
_PYTHON_OPTIONS = "bBdEhiIOPqRsSuvVx?c:m:W:X:"
"""The options of Python in the words of ``getopt``; the first word that is none is the script."""


@dataclass(frozen=True, slots=True)
class AttachedProgram:
    """What is to be started.

    Attributes:
        executable: the path of the program.
        arguments: its arguments, the name of the program first.
        environment: its variables.
    """

    executable: str
    arguments: list[str]
    environment: dict[str, str]

    def with_events(self, path: Path) -> AttachedProgram:
        """Return the program whose processes note in a file what happens to them."""
        return replace(self, environment={**self.environment, _EVENTS: str(path)})


def attached_program(command: Sequence[str], request: Mapping[str, Any], told_by: str) -> AttachedProgram:
    """Return the program of a command line; a .py file alone is run with this Python.

    Args:
        command: the words of the command line.
        request: what ``adapters.pytorch.auto_attach.attach`` is told.
        told_by: the command of msprobe, for messages.

    Raises:
        InterfaceError: there is no such program or file.
    """
    program = [sys.executable, *command] if command[0].endswith(".py") else list(command)
    executable = shutil.which(program[0])
    if executable is None:
        raise InterfaceError(f"{told_by}: there is no program {program[0]!r}; write it as without msprobe, behind --")
    script = _script_of(program)
    if script is not None and not Path(script).exists():
        raise InterfaceError(f"{told_by}: there is no file {script} (working directory: {os.getcwd()}); check the path")
    search_path = [str(_BOOTSTRAP), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search_path), _REQUEST: json.dumps(request)}
    return AttachedProgram(executable, program, environment)


def _script_of(program: Sequence[str]) -> str | None:
    """Return the script that Python is told to run; None for another program, ``-c``, ``-m`` and standard input."""
    if not re.fullmatch(r"python[\d.]*", Path(program[0]).name):
        return None
    try:
        options, rest = getopt.getopt(list(program[1:]), _PYTHON_OPTIONS, ["check-hash-based-pycs="])
    except getopt.GetoptError:
        return None  # what Python says of it is right
    is_code = any(name in ("-c", "-m") for name, _ in options)
    return None if is_code or not rest or rest[0] == "-" else rest[0]
