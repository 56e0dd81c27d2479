"""Keep the last steps of a training in memory, and write them when something has happened.

    "statistics": {"ring": {"steps": 3, "megabytes": 256, "on": ["nan", "spike"]}}

Steps are recorded as always, but into memory (``HeldSink``). A reason (a NaN, a spike, an alert of the monitor,
``trigger()``, an exception that ends the program) writes the kept steps and the present one as ordinary dumps whose
headers say why (``kept_for``). A kind of reason that has written steps writes no more for ``cool_down`` steps.

Memory is bounded: the oldest step goes first, and a single step that is larger than the bound is given up with a line.
NaN and spikes are looked for where a step is settled, at ``stop`` and at its end, so no statistic is fetched from a
device for them. A process that is killed loses what is kept. A rank with a reason tells the others (``RankTriggers``).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msprobe.core.config.when_to_record import RingSettings
from msprobe.core.dump.bounds.held_sink import HeldSink
from msprobe.core.dump.bounds.rank_triggers import RankTriggers
from msprobe.core.dump.bounds.value_watch import Reason, ValueWatch
from msprobe.core.log import first_time, logger

KEPT_FOR: Final = "kept_for"
"""The field of the header that says why a step was written: ``{"kind": ..., "reason": ..., "step": ...}``."""
TRIGGER: Final = "trigger"


class Ring:
    """The steps of one session that are in memory.

    Args:
        settings: how many, how large, and what writes them.
        root: the dump folder.
    """

    def __init__(self, settings: RingSettings, root: Path) -> None:
        self.settings = settings
        self._limit = settings.megabytes * 1_000_000
        self._kept: deque[tuple[int, HeldSink]] = deque()
        self._open: HeldSink | None = None
        self._values = ValueWatch(settings.on)
        self._silent: dict[tuple[str, str], int] = {}  # up to which step a reason writes nothing
        self._lock = threading.RLock()
        self._recorded = self._written = 0
        self._rank: int | None = None
        self._others = RankTriggers(root) if settings.all_ranks else None

    def open_step(
        self,
        claim: Callable[[], Path],
        folder: Path,
        header: Mapping[str, Any],
        options: Mapping[str, Any],
        rank: int | None = None,
    ) -> HeldSink:
        """Return the sink of a step of a rank that begins; the other arguments are those of ``HeldSink``."""
        with self._lock:
            self._rank = rank
            self._recorded += 1
            self._open = HeldSink(self, claim, folder, header, options)
            return self._open

    def watch(self, name: str, body: Any) -> None:
        """See the record of one call, with all its statistics."""
        self._values.see(name, body)

    def watch_odd(self, name: str, body: Any) -> None:
        """See the record of one call in which something is not finite."""
        self._values.see_odd(name, body)

    def make_room(self, size: int) -> bool:
        """Drop the oldest steps until one of ``size`` bytes fits in; return False when it never will."""
        with self._lock:
            if size > self._limit:
                if first_time("ring: too large"):
                    logger.warning(
                        "ring: a step is larger than %d MB: it is not kept. Raise statistics.ring.megabytes, or record "
                        "less of a step (list, sample, extra_info).",
                        self.settings.megabytes,
                    )
                return False
            while self._kept and size + sum(sink.size for _, sink in self._kept) > self._limit:
                self._kept.popleft()[1].forget()
            return True

    def settle(self, number: int) -> None:
        """Look for a reason in what the open step has so far, whose statistics have arrived."""
        for reason in self._values.conclude(number):
            self.trigger(reason, number)
        news = None if self._others is None or self._rank is None else self._others.news(self._rank)
        if news is not None:
            self.trigger(news[0], number, news[1])

    def end_step(self, number: int) -> None:
        """Keep the step that has ended, unless it is on the disk."""
        self.settle(number)
        with self._lock:
            sink, self._open = self._open, None
            if sink is None or not sink.in_memory or sink.failed:
                return
            for earlier in [one for one in self._kept if one[0] == number]:  # the same step begun anew
                self._kept.remove(earlier)
                earlier[1].forget()
            self._kept.append((number, sink))
            while len(self._kept) > self.settings.steps:
                self._kept.popleft()[1].forget()

    def drop_open(self) -> None:
        """Forget the open step."""
        with self._lock:
            self._open = None
            self._values.forget()

    def trigger(self, reason: Reason, number: int, origin: str = "") -> bool:
        """Write the kept steps and the open one; return False where the reason does not count, or did so lately.

        Args:
            reason: why.
            number: the number of the present step.
            origin: which other rank has the reason; "" for this one, which tells the others.
        """
        with self._lock:
            key = reason.kind, reason.text if reason.kind == TRIGGER else ""
            if reason.kind not in self.settings.on or number < self._silent.get(key, number):
                return False
            self._silent = {other: until for other, until in self._silent.items() if until > number}
            why = f"{origin}: {reason.text}" if origin else reason.text
            fields = {KEPT_FOR: {"kind": reason.kind, "reason": why, "step": number}}
            held = [*(sink for _, sink in self._kept), *([] if self._open is None else [self._open])]
            written = [sink.folder for sink in held if sink.write_out(fields)]
            self._kept.clear()
            self._written += len(written)
            if written:
                self._silent[key] = number + self.settings.cool_down
        self._tell(Reason(reason.kind, why), number, written)
        if not origin and self._others is not None and self._rank is not None:
            self._others.announce(self._rank, reason, number)
        return True

    def conclude(self) -> None:
        """Free the memory at the end of the program, and say so when nothing was written."""
        with self._lock:
            if self._recorded and not self._written:
                logger.info(
                    "ring: %d steps were recorded and none was written: there was no reason to (%s)",
                    self._recorded,
                    ", ".join(self.settings.on),
                )
            self.abandon()

    def abandon(self) -> None:
        """Forget all steps: the process is a forked child, or its configuration has changed."""
        for _, sink in self._kept:
            sink.forget()
        self._kept.clear()
        self._open = None
        self._lock = threading.RLock()  # in a forked child another thread may hold the present one for ever
        self._recorded = self._written = 0

    def _tell(self, reason: Reason, number: int, written: list[Path]) -> None:
        if not written:
            logger.warning(
                "ring: %s at step %d: %s; no step is in memory to be written", reason.kind, number, reason.text
            )
            return
        first, last = written[0].parent, written[-1].parent
        steps = str(first) if first == last else f"{first.name} to {last.name} in {last.parent}"
        logger.warning("ring: %s at step %d: %s; written: %s", reason.kind, number, reason.text, steps)


def warn_without_ring(reason: str) -> None:
    """Say once that a program asks for steps that are not kept."""
    if first_time("trigger without ring"):
        logger.warning('trigger(%r) has no effect: no step is kept in memory; add "ring" to section statistics', reason)
