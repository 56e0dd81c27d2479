"""What a program reads in a step that turns out to be none: an evaluation, whose numbers belong to the step before."""

from __future__ import annotations

from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.journal import dumps
from msprobe.core.store.reader import read_json_object
from msprobe.core.store.safe_files import write_atomic

READS = "reads"
MOST_READS = 1000
"""How many values that the program reads a step records: some programs read every element of a tensor by itself."""


def move_reads(source: Path, target: Path) -> None:
    """Add the reads in one dump.json to another one; a file that cannot be used is left as it is.

    Args:
        source: the document of the step that is forgotten.
        target: that of the step before it.
    """
    try:
        late = read_json_object(source).get(READS)
        if late and target.is_file():
            document = read_json_object(target)
            reads, data = document.pop(READS, None) or [], document.pop("data", {})
            write_atomic(target, [dumps({**document, READS: [*reads, *late][:MOST_READS], "data": data}, indent=1)])
    except (OSError, ReadError) as error:
        let_through(error)
        logger.warning("%s: what the program reads after this step is not in it (%s)", target, error)
