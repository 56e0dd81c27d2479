"""What an earlier run left in a folder: two runs never mix silently. Only files this tool writes are touched."""

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
_OF_A_STEP = re.compile(r"step\d+")
_OF_A_PROCESS = re.compile(r"proc\d+|rank\d+(_\d+)?")
_LOOKED_AT = 200
"""Folders; a dump of more is told of by its first ones."""
_BEGAN = time.time()  # and not that of a forked process: what its siblings record is of the same run


def clear_earlier_run(folder: Path) -> None:
    """Remove what an earlier run left in ``folder``, so that two runs never mix.

    Only files this tool writes are touched.
    """
    if any(os.path.lexists(folder / name) for name in _DOCUMENTS):
        logger.warning("%s holds an earlier dump: it is replaced by this run", folder)
        remove_documents(folder)


def remove_documents(folder: Path) -> None:
    for name in _DOCUMENTS:
        (folder / name).unlink(missing_ok=True)
    take_link_away(folder / TENSORS)
    if (folder / TENSORS).is_dir():
        shutil.rmtree(folder / TENSORS)


def tell_of_earlier_folders(root: Path, own: Path) -> None:
    """Warn of process folders below ``root``, other than ``own``, that were written before this program began: those
    of steps, ranks and processes that this run does not record stay, and would be taken for its own.
    """
    try:
        found = itertools.islice(_process_folders(root), _LOOKED_AT)
        earlier = [folder for folder in found if folder != own and _is_earlier(folder)]
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
    """Those of all steps, by name and number."""
    steps = [path for path in root.iterdir() if _OF_A_STEP.fullmatch(path.name)]
    for step in sorted(steps, key=lambda path: int(path.name.removeprefix("step"))):
        if step.is_dir():
            yield from sorted(path for path in step.iterdir() if _OF_A_PROCESS.fullmatch(path.name))


def _is_earlier(folder: Path) -> bool:
    times = []
    for name in (DUMP, DEBUG, JOURNAL):
        with contextlib.suppress(OSError):
            times.append((folder / name).lstat().st_mtime)
    return bool(times) and max(times) < _BEGAN
