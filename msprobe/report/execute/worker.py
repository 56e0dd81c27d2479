"""The other end of ``processes``: reads a task per line, writes an answer per line.

    python -m msprobe.report.execute.worker module:function

The first line of an answer's JSON is ``{"answer": text}``, or ``{"error": text, "code": number}`` for an error of ours.
Whatever else the work prints goes to the standard error stream.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO

from msprobe.core.errors import MEMORY_ERROR, MsprobeException
from msprobe.report.execute.protocol import Work, work_named


def serve(work: Work, tasks: IO[str], answers: IO[str]) -> None:
    """Answer every line of ``tasks`` until there are no more."""
    for line in tasks:
        answers.write(json.dumps(_answer(work, json.loads(line))) + "\n")
        answers.flush()


def _answer(work: Work, task: str) -> dict[str, object]:
    try:
        return {"answer": work(task)}
    except MsprobeException as error:
        return {"error": error.error_info, "code": error.code}
    except MemoryError:
        return {"error": f"{MEMORY_ERROR}: --executor processes:N", "code": MsprobeException.INVALID_PARAM_ERROR}


def main() -> None:
    """Serve the lines of the standard streams."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(work_named(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    main()
