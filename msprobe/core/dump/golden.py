"""Find the recorded step and process that belong to the present ones, below the root of an earlier dump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.core.dump.evidence import nothing_common
from msprobe.core.dump.live_difference import Divergence
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.core.store.layout import step_folder
from msprobe.core.store.reader import find_dumps, load_dump


def golden_folder(root: Path, step: int, rank: int | None) -> Path | None:
    """``{root}/step{N}/rank{R}``, else the only folder of a process in that step; None when there is none.

    Raises:
        MsprobeException: several processes could be meant.
    """
    folder = step_folder(root, step)
    if rank is not None and (folder / f"rank{rank}").is_dir():
        return folder / f"rank{rank}"
    found = sorted(child for child in folder.glob("*") if child.is_dir() and child.name.startswith(("proc", "rank")))
    ours = [child for child in found if rank is None or child.name.startswith("proc")]
    if len(ours) > 1:
        names = ", ".join(child.name for child in ours[:5])
        raise MsprobeException(0, f"{folder} holds several processes ({names}): leave only the one to compare with")
    return ours[0] if ours else None


class GoldenSteps:
    """The entries of a golden dump, step by step.

    Args:
        path: the ``dump_path`` of the golden run.
        summary_mode: that of this run; the golden dump must have something that can be held against it.
    """

    def __init__(self, path: str, summary_mode: str) -> None:
        self._root = Path(path).absolute()
        self._summary_mode = summary_mode
        self._found = False
        self.divergence = Divergence()

    def data(self, step: int, rank: int | None) -> dict[str, dict[str, Any]]:
        """The ``data`` of the dump of ``step``; empty, with a warning, for a later step that the golden run lacks.

        Raises:
            MsprobeException: there is none for the first step asked for, or several processes could be meant, or it
                has neither statistics nor checksums of the kind that this run takes.
            ReadError: it is damaged.
        """
        folder = golden_folder(self._root, step, rank)
        if folder is None:
            process = "" if rank is None else f", rank {rank}"
            where = f"bench_path: {self._root} holds nothing of step {step}{process}"
            return self._refuse(where, "give the dump_path of a run of these steps")
        data = load_dump(find_dumps(folder)[0]).data
        differ = nothing_common(data, self._summary_mode)
        if differ is not None:
            where = f"bench_path: {folder} has nothing"
            return self._refuse(where, f"{differ}; give both runs the same summary_mode")
        self._found = True
        return data

    def _refuse(self, where: str, advice: str) -> dict[str, dict[str, Any]]:
        """No step of a run that goes on already is stopped for it."""
        if not self._found:
            raise MsprobeException(0, f"{where} to compare with: {advice}")
        logger.warning("%s to compare with (%s): the calls are recorded and not compared", where, advice)
        return {}
