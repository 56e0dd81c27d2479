"""Run a script as ``msprobe run`` does, in a process that has imported torch: ``attached.py CONFIG MODEL SCRIPT ...``.

``tests.forked`` starts it. An empty MODEL stands for none. What this leaves out is the way from the command to the
import of torch in the program, for which ``test_run.py`` starts the command itself.
"""

import json
import runpy
import sys
from pathlib import Path

from msprobe.adapters.pytorch.auto_attach import attach

if __name__ == "__main__":
    _, config, model, *sys.argv = sys.argv
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    attach(json.dumps({"config": config, "model": model or None}))
    runpy.run_path(sys.argv[0], run_name="__main__")
