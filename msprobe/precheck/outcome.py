"""What an accuracy pre-check found: the checked calls, their numbers, and the verdict over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msprobe.compare.records.source_lines import source_line
from msprobe.precheck.checked_call import CheckedCall, Status
from msprobe.precheck.result_tables import ResultTables


@dataclass(slots=True)
class PrecheckResult:
    """What came out.

    Attributes:
        tables: the tables.
        dump: the dump that was checked.
        device: the device, or devices, under test.
        policy: by which rules calls were judged.
        calls: the calls of this run, in the order in which they ended.
        stacks: of each call that does not pass, its recorded stack, innermost frame first.
        resumed: the status of each call that the table had before, by its name.
    """

    tables: ResultTables
    dump: str
    device: str
    policy: str
    calls: list[CheckedCall] = field(default_factory=list)
    stacks: dict[str, list[str]] = field(default_factory=dict)
    resumed: Mapping[str, Status] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[Status]:
        """How many calls have which status, those of the table before too; the worse one of both passes counts."""
        return Counter([*(call.status for call in self.calls), *self.resumed.values()])

    @property
    def verdict(self) -> str:
        """``error``, ``warning`` or ``pass``; ``not_checked`` where no call could be judged."""
        counts = self.counts
        for status in (Status.ERROR, Status.WARNING, Status.PASS):
            if counts[status]:
                return str(status)
        return "not_checked"

    @property
    def failing(self) -> list[CheckedCall]:
        """The calls of this run that do not pass, those with an error first."""
        wrong = [call for call in self.calls if call.status in (Status.ERROR, Status.WARNING)]
        return sorted(wrong, key=lambda call: call.status is not Status.ERROR)

    def source_of(self, call: CheckedCall) -> str:
        """Return the line of the user's program that made a call; "" where the dump does not say."""
        return source_line(self.stacks.get(call.name, []))
