"""Find the recorded step and process that correspond to the present ones, below the root of an earlier dump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.core.dump.evidence import missing_evidence
from msprobe.core.dump.live_difference import Divergence
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.core.store.layout import step_folder
from msprobe.core.store.reader import find_dumps, load_dump


def golden_folder(root: Path, step: int, rank: int | None) -> Path | None:
    """Return ``{root}/step{N}/rank{R}``, else the only folder of a process in that step; None when there is none.

    Raises:
        MsprobeException: the step has several processes, and none of them has this rank.
    """
    folder = step_folder(root, step)
    if rank is not None and (folder / f"rank{rank}").is_dir():
        return folder / f"rank{rank}"
    folders = sorted(child for child in folder.glob("*") if child.is_dir() and child.name.startswith(("proc", "rank")))
    candidates = [child for child in folders if rank is None or child.name.startswith("proc")]
    if len(candidates) > 1:
        names = ", ".join(child.name for child in candidates[:5])
        raise MsprobeException(0, f"{folder} holds several processes ({names}): leave only the one to compare with")
    return candidates[0] if candidates else None


class GoldenSteps:
    """The entries of a golden dump, step by step.

    Args:
        path: the ``dump_path`` of the golden run.
        summary_mode: that of this run; the golden dump must have something that can be compared with it.
    """

    def __init__(self, path: str, summary_mode: str) -> None:
        self._root = Path(path).absolute()
        self._summary_mode = summary_mode
        self._loaded = False
        self.divergence = Divergence()

    def data(self, step: int, rank: int | None) -> dict[str, dict[str, Any]]:
        """Return the ``data`` of the dump of ``step``.

        It is empty, with a warning, when the golden run lacks a step after the first one.

        Raises:
            MsprobeException: the first step is missing, or has several processes, or has neither statistics nor
                checksums of the kind that this run takes.
            ReadError: the dump is damaged.
        """
        folder = golden_folder(self._root, step, rank)
        if folder is None:
            process = "" if rank is None else f", rank {rank}"
            where = f"bench_path: {self._root} holds nothing of step {step}{process}"
            return self._reject(where, "give the dump_path of a run of these steps")
        data = load_dump(find_dumps(folder)[0]).data
        missing = missing_evidence(data, self._summary_mode)
        if missing is not None:
            where = f"bench_path: {folder} has nothing"
            return self._reject(where, f"{missing}; give both runs the same summary_mode")
        self._loaded = True
        return data

    def _reject(self, where: str, advice: str) -> dict[str, dict[str, Any]]:
        """Raise for the first step; warn and return no entries for a later one, as training must go on."""
        if not self._loaded:
            raise MsprobeException(0, f"{where} to compare with: {advice}")
        logger.warning("%s to compare with (%s): the calls are recorded and not compared", where, advice)
        return {}
