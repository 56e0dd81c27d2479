"""Run a script as ``msprobe run`` does, in a process that has imported torch: ``attached.py CONFIG MODEL SCRIPT ...``.

``tests.forked`` starts it. An empty MODEL stands for none. What this leaves out is the way from the command to the
import of torch in the program, for which ``test_run.py`` starts the command itself.
"""

import atexit
import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from msprobe.adapters.pytorch.auto_attach import attach
from msprobe.core.config import load_config
from msprobe.jobs.programs.launcher import Events, say_what_is_missing

events: list[dict[str, Any]] = [{"event": "start"}, {"event": "torch"}]


def note(event: str, **facts: Any) -> None:
    """Keep an event for what the launcher says at the end."""
    events.append({"event": event, **facts})


def conclude(config: str, since: float) -> None:
    """Say what the launcher would say."""
    say_what_is_missing(Events(tuple(events)), load_config(config), since, monitor=False)


if __name__ == "__main__":
    _, config, model, *sys.argv = sys.argv
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    atexit.register(conclude, str(Path(config).absolute()), time.time())
    attach(json.dumps({"config": config, "model": model or None}), note)
    runpy.run_path(sys.argv[0], run_name="__main__")
