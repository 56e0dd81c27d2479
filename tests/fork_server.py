"""A Python that has imported a framework and forks a process for each program it is asked to run.

``tests.forked`` starts it with the descriptor of a socket of whole messages, over which the two talk, and the name of
the framework. A message is a JSON object: ``{"start": {...}}`` with the three standard streams as descriptors is
answered with the process id, ``{"poll": PID}`` with the exit status or null.

msprobe is not imported here: it reads its environment variables when it is imported.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import types
from pathlib import Path
from typing import Any, NoReturn

_LIBRARIES = ("numpy.typing", "pydantic.fields", "pydantic.main", "yaml", "click")  # that msprobe imports
PRELOADED = {
    "torch": (
        *_LIBRARIES,
        "torch",
        "torch._dynamo",  # imported by the optimizers
        "torch._inductor.config",  # by use_deterministic_algorithms
        "torch.utils.checkpoint",
    ),
    "mindspore": (*_LIBRARIES, "mindspore"),
}
"""Framework -> what is imported before the first program."""
LARGEST_MESSAGE = 200_000
"""Bytes."""
_KEPT: list[Any] = []


def serve(control: socket.socket) -> dict[str, Any]:
    """Answer requests until the client is gone; return, in a forked process only, the program to run."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, LARGEST_MESSAGE, 3)
        if not message:
            os._exit(0)
        request = json.loads(message)
        if "poll" in request:
            control.send(json.dumps(_exit_status(request["poll"])).encode())
            continue
        pid = os.fork()
        if not pid:
            control.close()
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
                os.close(descriptor)
            program: dict[str, Any] = request["start"]
            return program
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps(pid).encode())


def _exit_status(pid: int) -> int | None:
    """Return the status of a process that has ended, negative after a signal; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def prepare(program: dict[str, Any]) -> None:
    """Take over the environment, working directory and import path of the program."""
    os.environ.clear()
    os.environ.update(program["environment"])
    os.chdir(program["folder"])
    words = program["words"]
    first = "" if words[0] in {"-c", "-m"} else str(Path(words[0]).resolve().parent)
    path = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [first, *(part for part in path.split(os.pathsep) if part)]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=program["unbuffered"])  # type: ignore[union-attr]
    if "torch.distributed" in sys.modules:
        keep_parallel_models(sys.modules["torch"])


def keep_parallel_models(torch: Any) -> None:
    """Keep the models of DistributedDataParallel that exist when the process groups are destroyed.

    Otherwise such a model is the last that holds its gloo group. PyTorch 2.13 then waits for the thread of the group
    with the lock of the interpreter held, and the thread waits for this lock where it frees its last operation: about
    one in thirty trainings of two ranks never ended, without msprobe too.
    """
    destroy, parallel = torch.distributed.destroy_process_group, torch.nn.parallel.DistributedDataParallel

    def destroy_process_group(*args: Any, **kwargs: Any) -> None:
        _KEPT.extend(one for one in gc.get_objects() if issubclass(type(one), parallel))
        destroy(*args, **kwargs)

    torch.distributed.destroy_process_group = destroy_process_group


def run_to_the_end(words: list[str]) -> NoReturn:
    """Run a program and end as an interpreter does, but leave its memory alone.

    Threads are waited for and exit handlers run. Taking the objects apart is left out: it would copy most of the
    memory that this process shares with the server, which takes longer than most of the programs.
    """
    status = 0
    try:
        execute(words)
    except SystemExit as end:
        status = _status_of(end.code)
    except BaseException as error:  # noqa: BLE001  (whatever ends the program, as in any interpreter)
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _status_of(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def execute(words: list[str]) -> None:
    """Run ``-c TEXT``, ``-m MODULE`` or a script, each with its arguments, as the main module."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    if words[0] == "-c":
        sys.argv, text, name = ["-c", *words[2:]], words[1], "<string>"
    else:
        sys.argv, text, name = words, Path(words[0]).read_text(encoding="utf-8"), words[0]
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(text, name, "exec"), main.__dict__)


if __name__ == "__main__":
    del sys.path[0]
    for module in PRELOADED[sys.argv[2]]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy the memory that it shares with this one
    signal.signal(signal.SIGINT, signal.default_int_handler)
    what = serve(socket.socket(fileno=int(sys.argv[1])))
    prepare(what)
    run_to_the_end(what["words"])
