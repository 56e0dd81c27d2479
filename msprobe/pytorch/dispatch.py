"""``PtdbgDispatch``: each operator of a block once more in float64 on the CPU, judged at once."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from msprobe.adapters.pytorch.replay.operator_watch import OperatorWatch
from msprobe.adapters.pytorch.replay.runner import make_replayer
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.online.kept_tensors import MODES, KeptTensors
from msprobe.online.online_check import OnlineCheck, OperatorResult
from msprobe.online.sampling import Sampling

_EVERY_CALL = Sampling(first=1 << 62, share=float("inf"))


class PtdbgDispatch:
    """Check the operators that run in a ``with`` block, forward and backward. The program gets what they returned.

    Args:
        dump_mode: which tensors become files: ``OFF``, ``all``, ``list`` (those of ``api_list``), ``auto`` (of wrong
            calls).
        api_list: names of operators, ``["mm", "add.Tensor"]``.
        debug: log every operator that is checked, not only wrong ones.
        dump_path: the folder below which the results go; the working directory without it.
        tag: stands in the name of that folder.
        process_num: accepted for older scripts; checks run in the process of the program.

    Raises:
        MsprobeException: an argument is wrong.

    Example:
        with PtdbgDispatch(dump_path="checked"):
            model(batch).sum().backward()
    """

    sampling = _EVERY_CALL

    def __init__(
        self,
        dump_mode: str = "OFF",
        api_list: list[str] | None = None,
        debug: bool = False,
        dump_path: str | None = None,
        tag: str | None = None,
        process_num: int = 0,
    ) -> None:
        if dump_mode not in MODES:
            raise _wrong(f"dump_mode {dump_mode!r}: give one of {', '.join(MODES)}")
        if dump_mode == "list" and not api_list:
            raise _wrong('dump_mode "list" needs api_list, the names of operators such as ["mm"]')
        if isinstance(process_num, bool) or process_num < 0:
            raise _wrong(f"process_num {process_num!r}: give 0 or a number of processes")
        if process_num:
            logger.warning("process_num %d: checks run in the process of the program", process_num)
        folder = f"msprobe_{tag + '_' if tag else ''}rank{_rank()}_{datetime.now():%Y%m%d%H%M%S}"
        if Path(folder).name != folder:
            raise _wrong(f"tag {tag!r}: give a word without path separators")
        self.folder = Path(dump_path or ".") / folder
        self._kept = KeptTensors(self.folder, dump_mode, tuple(api_list or ()))
        self._debug = debug
        self._check: OnlineCheck | None = None
        self._watch: Any = None

    @classmethod
    def sampled(cls, first: int = 3, share: float = 0.05, **arguments: Any) -> PtdbgDispatch:
        """Return a check that can stay on for days.

        Args:
            first: how many calls of an operator with the same dtypes and shapes are checked.
            share: the share of the time of the program that checks may take.
            arguments: as for the class.
        """
        made = cls(**arguments)
        made.sampling = Sampling(first, share)
        return made

    @property
    def operators(self) -> dict[str, OperatorResult]:
        """The results so far, by the name of the operator."""
        return {} if self._check is None else self._check.operators

    def __enter__(self) -> PtdbgDispatch:
        self._check = OnlineCheck(make_replayer(), self.folder, self.sampling, self._kept, _rank())
        self._watch = OperatorWatch(self._check)
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, error, trace)
        assert self._check is not None
        if self._debug:
            for name, result in sorted(self._check.operators.items()):
                logger.info("online check: %s: %d checked, %d wrong", name, result.checked, result.wrong)
        try:
            self._check.close()
        except OSError as failure:
            logger.warning("online check: the summary cannot be written: %s", failure)


def _rank() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdecimal() else 0


def _wrong(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
