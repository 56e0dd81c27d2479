"""Runs a script in this process, so that kernels planted here count and torch is not imported again."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path


def exit_status(script: Path) -> tuple[int, str]:
    """Return the exit status of a script, and what it has printed."""
    said = io.StringIO()
    words, sys.argv = sys.argv, [str(script)]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0), said.getvalue()
    except Exception as error:  # noqa: BLE001 - whatever a script raises is its answer
        return 2, f"{said.getvalue()}{error!r}"
    finally:
        sys.argv = words
    return 0, said.getvalue()
