"""A Python that has imported a framework and forks a process for each program it is asked to run.

``tests.forked`` starts it with the name of the framework and the descriptor of a socket of whole messages, over which
the two talk. A message is a JSON object: ``{"start": {...}}`` with the three standard streams as descriptors is
answered with the process id, ``{"poll": PID}`` with the exit status or null.

Other processes connect to a second socket, each for one program: ``tests/fork_client.py``. The same message is answered
with the process id at once and the exit status at the end; a client that ends before its program takes it along.

msprobe is imported too. It reads its variables when it is imported, so a program that has one in its environment, other
than that of the log, or another msprobe on its path, imports it anew.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import inspect
import itertools
import json
import logging
import multiprocessing
import multiprocessing.process
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

_LIBRARIES = ("numpy.typing", "pydantic.fields", "pydantic.main", "yaml", "click", "jinja2", "xlsxwriter")
"""What msprobe imports."""
PRELOADED = {
    "torch": (
        *_LIBRARIES,
        "torch",
        "torch._dynamo",  # imported by the optimizers
        "torch._inductor.config",  # by use_deterministic_algorithms
        "torch.utils.checkpoint",
        "msprobe.pytorch",
        "msprobe.adapters.pytorch.debugger",
        "msprobe.adapters.pytorch.taps.collective_tap",
    ),
    "mindspore": (*_LIBRARIES, "mindspore", "msprobe.mindspore", "msprobe.adapters.msadapter.debugger"),
}
"""Framework -> what is imported before the first program."""
NAMES = {"torch": "msprobe.adapters.pytorch.recorded_names", "mindspore": "msprobe.adapters.mindspore.recorded_names"}
"""Framework -> the module that reads the table of recorded functions."""
LAYERS = ("core", "native", "numerics", "trace", "compare", "analyze", "check", "visualize", "report", "jobs", "cli")
"""Folders of msprobe that know no framework; all their modules are imported before the first program."""
LEVEL = "MSPROBE_LOG_LEVEL"
LARGEST_MESSAGE = 200_000
"""Bytes."""
MOST_DESCRIPTORS = 250
_KEPT: list[Any] = []


class Server:
    """Starts programs for the process that has started it, and for the clients that connect."""

    def __init__(self, control: socket.socket, listener: socket.socket) -> None:
        self._control = control
        self._listener = listener
        self._clients: dict[int, tuple[int, socket.socket]] = {}
        """Descriptor of a process -> its id and the client that waits for its end."""

    def serve(self) -> dict[str, Any]:
        """Answer requests until the starter is gone; return, in a forked process only, the program to run."""
        while True:
            ended = {client: descriptor for descriptor, (_, client) in self._clients.items()}
            for ready in select.select([self._control, self._listener, *self._clients, *ended], [], [])[0]:
                program = None
                if ready is self._control:
                    program = self._answer()
                elif ready is self._listener:
                    program = self._accept()
                elif ready in self._clients:
                    self._tell_the_end(ready)
                elif ended[ready] in self._clients:  # the client has gone, the server speaks last
                    os.kill(self._clients[ended[ready]][0], signal.SIGKILL)
                    self._tell_the_end(ended[ready])
                if program is not None:
                    return program

    def _answer(self) -> dict[str, Any] | None:
        message, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_MESSAGE, 3)
        if not message:
            os._exit(0)
        request = json.loads(message)
        if "poll" in request:
            self._control.send(json.dumps(_exit_status(request["poll"])).encode())
            return None
        pid, program = self._fork(request["start"], descriptors)
        if not pid:
            return program
        self._control.send(json.dumps(pid).encode())
        return None

    def _accept(self) -> dict[str, Any] | None:
        client, _ = self._listener.accept()
        message, descriptors, _, _ = socket.recv_fds(client, LARGEST_MESSAGE, MOST_DESCRIPTORS)
        if not message:
            client.close()
            return None
        pid, program = self._fork(json.loads(message)["start"], descriptors)
        if not pid:
            client.close()
            return program
        self._clients[os.pidfd_open(pid)] = pid, client
        with contextlib.suppress(OSError):  # the client may have been killed meanwhile: then its program goes too
            client.send(json.dumps(pid).encode())
        return None

    def _fork(self, program: dict[str, Any], descriptors: list[int]) -> tuple[int, dict[str, Any]]:
        """Return the id of the new process, and 0 in this one, whose descriptors are those of the program."""
        pid = os.fork()
        if not pid:
            self._control.close()
            self._listener.close()
            for descriptor, (_, client) in self._clients.items():
                os.close(descriptor)
                client.close()
            descriptors = _moved(descriptors, program)
        for descriptor in descriptors:
            os.close(descriptor)
        return pid, program

    def _tell_the_end(self, descriptor: int) -> None:
        pid, client = self._clients.pop(descriptor)
        os.close(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with client, contextlib.suppress(OSError):
            client.send(json.dumps(status).encode())


def _moved(descriptors: list[int], program: dict[str, Any]) -> list[int]:
    """Duplicate descriptors to the numbers that the program knows; return the copies that are left to close."""
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, MOST_DESCRIPTORS) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for copy, number in zip(copies, program.get("numbers", range(3)), strict=True):
        os.dup2(copy, number)
    return copies


def _exit_status(pid: int) -> int | None:
    """Return the status of a process that has ended, negative after a signal; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def prepare(program: dict[str, Any]) -> None:
    """Take over the environment, working directory and import path of the program."""
    os.environ.clear()
    os.environ.update(program["environment"])
    os.chdir(program["folder"])
    if "executable" in program:
        sys.executable = program["executable"]
        sys.dont_write_bytecode = not program["writes_bytecode"]
        multiprocessing.set_executable(sys.executable)
        multiprocessing.process.ORIGINAL_DIR = program["folder"]  # as if it were imported now
    words = program["words"]
    first = "" if words[0] in {"-c", "-m"} else str(Path(words[0]).resolve().parent)
    path = os.environ.get("PYTHONPATH", "")
    own_path = [first, *(part for part in path.split(os.pathsep) if part)]
    sys.path[:0] = own_path
    settings = {name for name in os.environ if name.startswith("MSPROBE_")}
    if settings - {LEVEL} or _another_msprobe(own_path):
        forget_msprobe()
    elif LEVEL in settings and "msprobe.core.log" in sys.modules:
        sys.modules["msprobe.core.log"].configure()
    open_streams(unbuffered=program["unbuffered"])
    if "torch.distributed" in sys.modules:
        keep_parallel_models(sys.modules["torch"])


def _another_msprobe(path: list[str]) -> bool:
    """Return whether the program would import another msprobe than the one that is imported here."""
    loaded = getattr(sys.modules.get("msprobe"), "__file__", None)
    nearest = next((file for folder in path if (file := Path(folder, "msprobe", "__init__.py")).exists()), None)
    return loaded is not None and nearest is not None and not nearest.samefile(loaded)


def forget_msprobe() -> None:
    """Let the next import of msprobe be its first: no module, finder or handler of it is left."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "msprobe"]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("msprobe.")]
    logging.getLogger("msprobe").handlers.clear()


def import_first(framework: str) -> None:
    """Import what a program of the framework needs, as far as it is installed."""
    for name in itertools.chain(PRELOADED[framework], _modules_of_layers()):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _modules_of_layers() -> Iterator[str]:
    """Yield the names; walks when the modules before are imported."""
    folders = list(getattr(sys.modules.get("msprobe"), "__path__", ()))
    for folder, layer in itertools.product(folders, LAYERS):
        for module in pkgutil.walk_packages([f"{folder}/{layer}"], f"msprobe.{layer}.", onerror=lambda _: None):
            yield module.name


def open_streams(*, unbuffered: bool) -> None:
    """Open the standard streams anew: the objects still know of the files of the server, what those can do."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        before = getattr(sys, name)
        stream = open(  # noqa: SIM115  (for the whole program)
            before.fileno(), mode, encoding=before.encoding, errors=before.errors, closefd=False
        )
        if mode == "w":
            stream.reconfigure(line_buffering=name == "stderr" or stream.isatty(), write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


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
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
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


def read_first(framework: str) -> None:
    """Read what each program would read for itself: the table of recorded functions, and the files of all modules."""
    with contextlib.suppress(ImportError):
        importlib.import_module(NAMES[framework]).read_names()
    inspect.getmodule(compile("", "no module", "exec"))  # looks at all modules, and keeps their files


def leave_apart_at_the_end() -> None:
    """Let no program finalize, at its end, what was made before it: the objects of the imported modules.

    Most are the libraries of operators of torch, whose removal would copy memory of the server as well.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False


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
        name = str(Path(words[0]).absolute())
        sys.argv, text = words, Path(name).read_text(encoding="utf-8")
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(text, name, "exec"), main.__dict__)


if __name__ == "__main__":
    del sys.path[0]
    import_first(sys.argv[1])
    read_first(sys.argv[1])
    leave_apart_at_the_end()
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy the memory that it shares with this one
    gc.set_threshold(20_000)  # as in tests/conftest.py
    signal.signal(signal.SIGINT, signal.default_int_handler)
    what = Server(*(socket.socket(fileno=int(number)) for number in sys.argv[2:])).serve()
    prepare(what)
    run_to_the_end(what["words"])
