"""SIGTERM and SIGHUP leave every ``with`` of a command, once, and only in the process that asked for it."""

import signal
import subprocess
import sys

import pytest

START = """
import os, signal, sys, time
from msprobe.cli.main import main
from msprobe.cli import main as cli_main
import click

@click.command("wait")
def wait():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("tidying", flush=True)
        {inside}
        print("tidied", flush=True)

cli_main.wait = wait
cli_main.COMMANDS["wait"] = cli_main.CommandEntry("msprobe.cli.main:wait", "Waits.")
{before}
main(["wait"])
"""


def started(before: str = "", inside: str = "pass") -> "subprocess.Popen[str]":
    code = START.format(before=before, inside=inside)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["SIGTERM", "SIGHUP"])
def test_a_signal_tidies_up_and_is_the_status(number: signal.Signals, status: int) -> None:
    process = started()
    process.send_signal(number)
    out, told = process.communicate(timeout=30)
    assert (process.returncode, out) == (status, "tidying\ntidied\n")
    assert told == f"msprobe: error: ended by {number.name}\n"


def test_a_second_signal_does_not_cut_tidying_short() -> None:
    process = started(inside="time.sleep(0.5)")
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "tidying\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (143, "tidied\n")


def test_an_ignored_signal_stays_ignored() -> None:
    process = started(before="signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_copy_of_the_process_ends_as_ever() -> None:
    """A pool that ends its workers must not have them tidy up what is the parent's."""
    code = """
import os, signal, time
from msprobe.cli.main import raise_on_termination
raise_on_termination()
child = os.fork()
if child == 0:
    try:
        time.sleep(60)
    finally:
        print("tidied", flush=True)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert result.stdout == f"{-signal.SIGTERM}\n"


def test_a_training_gets_its_signals_itself() -> None:
    code = (
        "import signal; from msprobe.cli.main import main\n"
        "try:\n    main(['run', '--help'])\n"
        "except SystemExit:\n    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"
    )
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
