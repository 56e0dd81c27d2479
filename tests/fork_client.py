"""Stand for ``python`` on a command line: have the program run by a fork server, and end as it ends.

``tests.forked`` writes the script that starts this file with the name of the server's socket and the words that
``python`` was given. What an interpreter only does at its own start is left to a real one: other options, settings of
``PYTHON...``, a program on standard input, and a ``sitecustomize`` on the path.
"""

import itertools
import json
import os
import signal
import socket
import sys
from pathlib import Path

_KNOWN = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONHASHSEED"}
"""The last one is set by ``seed_all`` for whatever starts later; hashes are those of the server all the same."""
_FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def needs_a_real_start(words: list[str]) -> bool:
    """Return whether the program asks for something that a running interpreter cannot give it."""
    if not words or (words[0].startswith("-") and words[0] not in {"-c", "-m"}):
        return True
    if any(name.startswith("PYTHON") and name not in _KNOWN for name in os.environ):
        return True
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return any(Path(folder, "sitecustomize.py").exists() for folder in folders if folder)


def inherited() -> list[int]:
    """Return the descriptors that the program gets besides the three standard streams."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if number > 2 and os.get_inheritable(number):
                found.append(number)
        except OSError:  # that of the listing itself
            continue
    return found


def main() -> None:
    """Run the program and end with its status, or by its signal."""
    address, python, executable, *words = sys.argv[1:]
    options = list(itertools.takewhile({"-u", "-B"}.__contains__, words))
    rest = words[len(options) :]
    if needs_a_real_start(rest):
        os.execv(python, [python, *words])
    numbers = [0, 1, 2, *inherited()]
    program = {
        "words": rest,
        "executable": str(Path(executable).absolute()),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "unbuffered": "-u" in options or "PYTHONUNBUFFERED" in os.environ,
        "writes_bytecode": "-B" not in options and "PYTHONDONTWRITEBYTECODE" not in os.environ,
        "numbers": numbers,
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect("\0" + address)
        socket.send_fds(server, [json.dumps({"start": program}).encode()], numbers)
        pid = json.loads(server.recv(100))
        for number in _FORWARDED:
            signal.signal(number, lambda received, _: os.kill(pid, received))
        status = json.loads(server.recv(100))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in {signal.SIGKILL, signal.SIGSTOP} else None
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
