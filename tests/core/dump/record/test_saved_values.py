"""Points in the journal while their files wait: what has been seen stays readable at every moment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from msprobe.core.dump.record.saved_values import Placeholder, SavedValueRecord
from msprobe.core.store.journal import fold
from msprobe.core.store.sink import DirectorySink

HEADER = {"task": "tensor", "level": "debug", "framework": "fake", "dump_data_dir": None}
GRADIENT = "point_grad.0.debug"


class Work:
    """Jobs in the background that are done when the test says so."""

    put = done = 0
    outstanding = False

    def settle_statistics(self) -> None:
        """Statistics are there at once."""

    def settle(self) -> None:
        self.done = self.put


def within(seconds: float, sink: DirectorySink, body: Any) -> bool:
    end = time.monotonic() + seconds
    while fold(sink.folder / "dump.journal", points=True).data.get(GRADIENT, "missing") != body:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_nulls_do_not_come_back_over_a_gradient_whose_file_waits(tmp_path: Path) -> None:
    work = Work()
    sink = DirectorySink(tmp_path / "step0" / "rank0", HEADER, extra_info=True, tensors=False, pending=work)
    work.put = 1
    sink.write(Placeholder(GRADIENT, None))
    assert within(2.0, sink, None)
    work.put = 2
    sink.write(SavedValueRecord(GRADIENT, {"Max": 1}))
    assert within(2.0, sink, {"Max": 1})
    work.done = 1  # all that the nulls waited for, and not the file of the gradient
    laid = (sink.folder / "dump.journal").stat().st_size
    time.sleep(0.3)
    assert fold(sink.folder / "dump.journal", points=True).data[GRADIENT] == {"Max": 1}
    assert (sink.folder / "dump.journal").stat().st_size == laid
    sink.close()
