"""A command ends at once with all its output written; a program that goes on keeps nothing."""

import subprocess
import sys

import pytest


class Large:
    """Tells when it is freed."""

    def __del__(self) -> None:
        print("freed")


_PROGRAM = """
from msprobe.core import unfreed
from tests.core.test_unfreed import Large
{said}
unfreed.leave(Large())
print("done")
unfreed.end(3)
"""


@pytest.mark.parametrize(
    ("said", "written"),
    [
        pytest.param("unfreed.ends_soon()", "done\n", id="command"),
        pytest.param("", "freed\ndone\n", id="program"),
    ],
)
def test_what_is_left_is_not_freed_by_a_command(said: str, written: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM.format(said=said)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, written, "")
