"""Programs as processes of their own, without the two seconds each that importing a framework takes.

``start`` and ``run`` stand for ``subprocess.Popen`` and ``subprocess.run`` with ``sys.executable``: the process has its
own id, environment, working directory and standard streams, receives signals, waits for its threads and runs its exit
handlers. What differs: the framework (``preloaded``) is imported already, and objects are not taken apart at the end.
A program that is about one of these needs a real start. ``python`` is such a Python for command lines, and for what the
program under test starts itself.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

SERVER, CLIENT = (Path(__file__).with_name(name) for name in ("fork_server.py", "fork_client.py"))
TORCH, MINDSPORE = "torch", "mindspore"


class ForkedProcess:
    """A running program; the part of ``subprocess.Popen`` that the tests use. Both outputs come on ``stdout``."""

    def __init__(self, server: _Server, pid: int, stdout: IO[bytes], words: Sequence[str]) -> None:
        self._server = server
        self.pid = pid
        self.stdout = stdout
        self.args = list(words)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative after a signal; None while the process runs."""
        if self.returncode is None:
            self.returncode = self._server.status(self.pid)
        return self.returncode

    def wait(self, timeout: float = 120) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        if self.poll() is None:
            end = os.pidfd_open(self.pid)  # the id stays taken until the server is asked
            try:
                select.select([end], [], [], timeout)
            finally:
                os.close(end)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def communicate(self, timeout: float = 120) -> tuple[bytes, None]:
        """Read the rest of the output and wait for the end; a process that takes longer is killed and raises."""
        end = time.monotonic() + timeout
        pieces = []
        with self.stdout as stream:
            while True:
                if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
                    self.kill()
                    self.wait()
                    raise subprocess.TimeoutExpired(self.args, timeout, b"".join(pieces))
                piece = os.read(stream.fileno(), 1 << 16)
                if not piece:
                    break
                pieces.append(piece)
        self.wait(max(1.0, end - time.monotonic()))
        return b"".join(pieces), None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    words: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    unbuffered: bool = False,
    preloaded: str = TORCH,
) -> ForkedProcess:
    """Start ``python WORDS`` (a script, ``-c TEXT`` or ``-m MODULE``, and arguments); both outputs come on a pipe."""
    server = _server(preloaded)
    program = _program(words, env, cwd, unbuffered=unbuffered)
    read, write = os.pipe()
    with open(os.devnull, "rb") as nothing:
        pid = server.start(program, [nothing.fileno(), write, write])
    os.close(write)
    return ForkedProcess(server, pid, os.fdopen(read, "rb", buffering=0), list(map(str, words)))


def run(
    words: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 120,
    preloaded: str = TORCH,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``python WORDS`` to its end; both outputs are captured."""
    server = _server(preloaded)
    program = _program(words, env, cwd)
    with open(os.devnull, "r+b") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = server.start(program, [nothing.fileno(), out.fileno(), err.fileno()])
        process = ForkedProcess(server, pid, nothing, list(map(str, words)))
        try:
            status = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, status, out.read(), err.read())


@functools.cache
def python(preloaded: str = TORCH) -> str:
    """Return the path of a ``python`` for command lines, whose programs begin with the framework imported.

    It behaves as that of an installation; where a program needs the start of an interpreter, it is a real one.
    """
    folder = Path(tempfile.mkdtemp(prefix="msprobe-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = [sys.executable, "-ISE", str(CLIENT), _server(preloaded).address, sys.executable]
    tool = folder / "python"
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$0" "$@"\n')
    tool.chmod(0o755)
    return str(tool)


def _program(
    words: Sequence[object], env: Mapping[str, str] | None, cwd: Path | None, *, unbuffered: bool = False
) -> dict[str, object]:
    return {
        "words": list(map(str, words)),
        "environment": dict(os.environ if env is None else env),
        "folder": str(cwd or Path.cwd()),
        "unbuffered": unbuffered,
    }


class _Server:
    def __init__(self, preloaded: str) -> None:
        self._control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with remote, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            self.address = f"msprobe-tests-{os.getpid()}-{preloaded}"
            listener.bind("\0" + self.address)
            listener.listen()
            numbers = [remote.fileno(), listener.fileno()]
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            environment["GLOG_v"] = "3"  # MindSpore reads it when it is imported: no warnings of its own
            command = [sys.executable, str(SERVER), preloaded, *map(str, numbers)]
            self._process = subprocess.Popen(command, pass_fds=numbers, env=environment, stdin=subprocess.DEVNULL)

    def start(self, program: dict[str, object], streams: list[int]) -> int:
        socket.send_fds(self._control, [json.dumps({"start": program}).encode()], streams)
        return int(self._answer())

    def status(self, pid: int) -> int | None:
        self._control.send(json.dumps({"poll": pid}).encode())
        answer: int | None = json.loads(self._answer())
        return answer

    def _answer(self) -> bytes:
        answer = self._control.recv(1000)
        assert answer, "the fork server has ended"
        return answer

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@functools.cache
def _server(preloaded: str) -> _Server:
    server = _Server(preloaded)
    atexit.register(server.close)
    return server
