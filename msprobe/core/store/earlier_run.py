"""What an earlier run left in a folder: two runs never mix silently. Only files this tool writes are touched."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from msprobe.core.log import logger
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, ERRORS, JOURNAL, STACK, TENSORS
from msprobe.core.store.links import take_link_away

_DOCUMENTS = (DUMP, DEBUG, STACK, CONSTRUCT, JOURNAL, ERRORS)
_OF_A_PROCESS = re.compile(r"(?:proc|rank\d+_)\d+")
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


def tell_of_earlier_processes(folder: Path) -> bool:
    """Warn of folders beside ``folder`` that carry process ids and were written before this program began.

    No later run replaces them, as its processes have other ids. True when there are any.
    """
    try:
        others = [other for other in folder.parent.iterdir() if other != folder and _is_of_earlier_process(other)]
    except OSError:
        return False
    if others:
        names = ", ".join(sorted(other.name for other in others)[:3])
        logger.warning(
            "%s holds %d folder%s of processes that recorded before this program began (%s): they stay, beside those "
            "of this run; remove them, or give each run a dump_path of its own",
            folder.parent,
            len(others),
            "s" * (len(others) > 1),
            names,
        )
    return bool(others)


def _is_of_earlier_process(folder: Path) -> bool:
    if _OF_A_PROCESS.fullmatch(folder.name) is None:
        return False
    times = [path.lstat().st_mtime for path in map(folder.joinpath, _DOCUMENTS) if os.path.lexists(path)]
    return bool(times) and max(times) < _BEGAN
