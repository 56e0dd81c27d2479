"""Files of an earlier run: they are removed or warned of, so that two runs never mix silently."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from msprobe.core.log import logger
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, ERRORS, JOURNAL, STACK, TENSORS
from msprobe.core.store.links import take_link_away

_DOCUMENTS = (DUMP, DEBUG, STACK, CONSTRUCT, JOURNAL, ERRORS)
_STEP_NAME = re.compile(r"step\d+")
_PROCESS_NAME = re.compile(r"proc\d+|rank\d+(_\d+)?")
_MOST_FOLDERS = 200
"""How many folders are examined; of a larger dump only the first ones."""
_BEGIN = time.time()  # of the first process of a run: forked processes inherit it


def clear_earlier_run(folder: Path) -> None:
    """Remove the dump of an earlier run from ``folder``, with a warning. Only files that msprobe writes are removed."""
    if any(os.path.lexists(folder / name) for name in _DOCUMENTS):
        logger.warning("%s holds an earlier dump: it is replaced by this run", folder)
        remove_documents(folder)


def remove_documents(folder: Path) -> None:
    """Remove all documents and tensor files of a dump from ``folder``."""
    for name in _DOCUMENTS:
        (folder / name).unlink(missing_ok=True)
    take_link_away(folder / TENSORS)
    if (folder / TENSORS).is_dir():
        shutil.rmtree(folder / TENSORS)


def tell_of_earlier_folders(root: Path, own: Path) -> None:
    """Warn of process folders below ``root``, except ``own``, that were written before this program began.

    Folders of steps, ranks and processes that this run does not record stay; a reader would take them for its own.
    """
    try:
        folders = itertools.islice(_process_folders(root), _MOST_FOLDERS)
        earlier = [folder for folder in folders if folder != own and _is_earlier(folder)]
    except OSError:  # another process of this run removes what it has recorded
        return
    if earlier:
        names = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in earlier[:3])
        logger.warning(
            "%s holds %d folder%s written before this program began (%s%s): what this run does not record again stays "
            "beside it; remove them, or give each run a dump_path of its own",
            root,
            len(earlier),
            "s" * (len(earlier) > 1),
            names,
            ", ..." * (len(earlier) > 3),
        )


def _process_folders(root: Path) -> Iterator[Path]:
    """Yield the process folders of all steps, by number of the step and name."""
    steps = [path for path in root.iterdir() if _STEP_NAME.fullmatch(path.name)]
    for step in sorted(steps, key=lambda path: int(path.name.removeprefix("step"))):
        if step.is_dir():
            yield from sorted(path for path in step.iterdir() if _PROCESS_NAME.fullmatch(path.name))


def _is_earlier(folder: Path) -> bool:
    times = []
    for name in (DUMP, DEBUG, JOURNAL):
        with contextlib.suppress(OSError):
            times.append((folder / name).lstat().st_mtime)
    return bool(times) and max(times) < _BEGIN
