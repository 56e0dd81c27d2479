"""What an earlier run left in a folder: two runs never mix. Only files this tool writes are touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msprobe.core.log import logger
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, ERRORS, JOURNAL, STACK, TENSORS
from msprobe.core.store.links import take_link_away

_DOCUMENTS = (DUMP, DEBUG, STACK, CONSTRUCT, JOURNAL, ERRORS)


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
