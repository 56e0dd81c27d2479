"""The log: levels from the environment, one safe line per event, nobody else's logger touched."""

import io
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from msprobe.core import log


@pytest.fixture(autouse=True)
def unchanged_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts from the default log and leaves it behind."""
    monkeypatch.delenv(log.LEVEL_VARIABLE, raising=False)
    log.use_stream("stdout")
    log.configure()
    yield
    monkeypatch.undo()
    log.use_stream("stdout")
    log.set_rank(None)
    log.configure()


def say_all() -> None:
    for method in ("debug", "info", "warning", "error"):
        getattr(log.logger, method)("this is %s", method)


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        (None, ["INFO", "WARNING", "ERROR"]),
        ("", ["INFO", "WARNING", "ERROR"]),
        ("0", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("1", ["INFO", "WARNING", "ERROR"]),
        ("2", ["WARNING", "ERROR"]),
        ("3", ["ERROR"]),
        ("4", []),
    ],
)
def test_the_environment_chooses_the_level(
    level: str | None, heard: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if level is not None:
        monkeypatch.setenv(log.LEVEL_VARIABLE, level)
    log.configure()
    say_all()
    out, err = capsys.readouterr()
    assert re.findall(r"\[([A-Z]+)\] this is", out) == heard
    assert err == ""


def test_an_unknown_level_is_said_once_and_means_info(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(log.LEVEL_VARIABLE, "loud")
    log.configure()
    log.configure()
    assert capsys.readouterr().out.count("MSPROBE_LOG_LEVEL='loud' is not one of") == 1
    assert log.logger.level == logging.INFO


def test_a_line_has_time_pid_rank_level_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.logger.info("first")
    log.set_rank(3)
    log.logger.warning("second")
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d \({os.getpid()}\) \[INFO\] first", first)
    assert second.endswith(f"({os.getpid()}) [rank 3] [WARNING] second")


def test_control_characters_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    log.logger.info("name \x1b[31m\r\x00 end")
    assert "name \\x1b[31m\\x0d\\x00 end" in capsys.readouterr().out


def test_a_name_that_the_stream_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    log.logger.info("数 \ud800")
    assert stream.buffer.getvalue().rstrip().endswith(b"\\u6570 \\xd800")  # type: ignore[attr-defined]


def test_the_command_line_can_move_it_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log.use_stream("stderr")
    log.logger.info("aside")
    out, err = capsys.readouterr()
    assert out == ""
    assert "aside" in err


def test_a_closed_stream_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
    log.logger.info("nobody hears")
    monkeypatch.setattr(sys, "stdout", None)
    log.logger.info("nobody hears")


def test_configuring_twice_does_not_double_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure()
    log.logger.info("one")
    assert capsys.readouterr().out.count("one") == 1


def test_once_is_true_for_one_thread_only() -> None:
    key, answers = object(), []
    threads = [threading.Thread(target=lambda: answers.append(log.first_time(key))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 7 + [True]


def test_importing_leaves_the_root_logger_alone_and_is_cheap() -> None:
    code = (
        "import sys, logging; from msprobe.core import log; root = logging.getLogger();"
        "assert root.handlers == [] and root.level == logging.WARNING;"
        "foreign = {name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'msprobe'};"
        "assert not foreign & {'numpy', 'pydantic', 'click', 'yaml', 'torch'}, foreign"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
