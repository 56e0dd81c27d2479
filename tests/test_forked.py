"""A forked program is a process as any other: its own id, environment, folder, streams, signals and end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import MINDSPORE, TORCH, _program, _server, python, run, start
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.slow]

FACTS = """
import os, sys
print(os.getcwd(), os.environ["NAME"], sys.argv[1:], __name__, "torch" in sys.modules, "msprobe" in sys.modules)
print("error", file=sys.stderr)
"""


def test_a_program_has_its_own_surroundings(tmp_path: Path) -> None:
    result = run(["-c", FACTS, "one", "two"], env={"NAME": "value"}, cwd=tmp_path)
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    assert f"{tmp_path} value ['one', 'two'] __main__ True True" in lines
    assert result.stderr == b"error\n"


def test_msprobe_is_imported_anew_where_its_environment_or_its_place_is_another(tmp_path: Path) -> None:
    text = (
        "import sys, logging; print('msprobe' in sys.modules); import msprobe.core.log as log; log.logger.info('once')"
    )
    other = tmp_path / "other" / "msprobe"
    (other / "core").mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "core" / "log.py").write_text("import logging; logger = logging.getLogger('msprobe')")
    for environment, known, lines in (
        ({}, "True", 1),
        ({"MSPROBE_LOG_LEVEL": "3"}, "True", 0),
        ({"MSPROBE_LOG_LEVEL": "3", "MSPROBE_FILE_MODE": "600"}, "False", 0),
        ({"MSPROBE_FILE_MODE": "600"}, "False", 1),
        ({"PYTHONPATH": str(ROOT)}, "True", 1),
        ({"PYTHONPATH": str(other.parent)}, "False", 0),
    ):
        first, *rest = run(["-c", text], env=environment, cwd=tmp_path).stdout.decode().splitlines()
        assert (first, len(rest)) == (known, lines), environment


def test_a_script_finds_what_lies_beside_it_and_on_the_path(tmp_path: Path) -> None:
    for name in ("beside", "path"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_module.py").write_text("")
    script = tmp_path / "beside" / "script.py"
    script.write_text("import sys, beside_module, path_module\nassert sys.argv == [__file__], sys.argv")
    result = run([script], env={"PYTHONPATH": str(tmp_path / "path")}, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("text", "status"), [("raise SystemExit(3)", 3), ("1 / 0", 1), ("import os; os.abort()", -6)])
def test_the_end_of_a_program_is_told(text: str, status: int) -> None:
    assert run(["-c", text]).returncode == status


def test_exit_handlers_run_and_other_threads_are_waited_for() -> None:
    text = "import atexit, threading; atexit.register(print, 'last'); threading.Timer(0.1, print, ['thread']).start()"
    assert run(["-c", text]).stdout.split() == [b"thread", b"last"]


@pytest.mark.mindspore
def test_a_program_of_mindspore_computes_in_the_fork() -> None:
    text = "import sys; known = 'mindspore' in sys.modules; import mindspore as ms; print(known, ms.Tensor([2.0]) * 3)"
    result = run(["-c", text], preloaded=MINDSPORE)
    assert (result.returncode, result.stdout) == (0, b"True [6.]\n"), result.stderr


def test_signals_reach_the_program() -> None:
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = start(["-c", "import os, time; os.write(1, b'ready\\n'); time.sleep(60)"])
        assert process.pid != os.getpid()
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        out, _ = process.communicate(30)
        assert process.returncode == -number
        assert out.rstrip().endswith(b"KeyboardInterrupt") is (number == signal.SIGINT)


def test_a_program_that_takes_too_long_is_killed() -> None:
    process = start(["-c", "import time; time.sleep(60)"])
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(0.2)
    assert process.returncode == -signal.SIGKILL


def test_a_parallel_model_outlives_its_group(tmp_path: Path) -> None:
    program = """
import sys, weakref
import torch
from torch import distributed
distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
kept = weakref.ref(model)
distributed.destroy_process_group()
del model
print(kept() is not None)
"""
    assert run(["-c", program, tmp_path / "store"]).stdout == b"True\n"


def test_a_python_for_command_lines_is_as_one_that_has_just_begun(tmp_path: Path) -> None:
    text = "import sys; print(sys.executable, sys.argv[1:], sys.stdin.read(), 'torch' in sys.modules)"
    for words, loaded in (([], True), (["-u"], True), (["-X", "utf8"], False)):
        result = subprocess.run(
            [python(), *words, "-c", text, "one"], input="in", capture_output=True, text=True, check=False
        )
        executable = python() if loaded else sys.executable
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == f"{executable} ['one'] in {loaded}\n"


def test_the_start_of_an_interpreter_is_a_real_one_where_it_runs_something(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert (
        subprocess.run([python(), "-c", ""], env=environment, stdout=subprocess.PIPE, check=True).stdout
        == b"customized\n"
    )


@pytest.mark.parametrize("status", [3, -signal.SIGKILL])
def test_the_end_of_a_program_of_a_command_line_is_told(status: int) -> None:
    text = f"import os; os.kill(os.getpid(), {-status}) if {status} < 0 else os._exit({status})"
    assert subprocess.run([python(), "-c", text], check=False).returncode == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_of_a_command_line_ends_with_what_was_started(number: int) -> None:
    read, write = os.pipe()
    text = f"import os, time; os.write({write}, b'ready'); time.sleep(60)"
    with subprocess.Popen([python(), "-c", text], pass_fds=[write]) as process, os.fdopen(read, "rb") as pipe:
        os.close(write)
        assert os.read(pipe.fileno(), 5) == b"ready"
        process.send_signal(number)
        assert process.wait() == -number
        assert pipe.read() == b""  # nobody holds the other end any longer


def test_a_client_that_ends_before_it_is_answered_ends_nothing_else() -> None:
    server = _server(TORCH)
    assert run(["-c", "pass"]).returncode == 0
    os.kill(server._process.pid, signal.SIGSTOP)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client, open(os.devnull, "r+b") as nothing:
            client.connect("\0" + server.address)
            request = {"start": _program(["-c", "pass"], None, None)}
            socket.send_fds(client, [json.dumps(request).encode()], [nothing.fileno()] * 3)
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
    assert run(["-c", "print(1)"]).stdout == b"1\n"
