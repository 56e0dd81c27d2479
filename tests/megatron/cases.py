"""A case: two runs of megatron-core in two layouts, and what a comparison of them has to say.

``correct/A/B``: both are right, and so the same; ``again`` is a second run of A, compared rank by rank, and
``again-merged`` one of which the ranks are merged. ``fault/A/NAME``: A with a fault against one process.
``equal/A/NAME``: against the same layout, rank by rank. ``correct/A/untold`` and ``untold/A/NAME``: against one process
without the sizes of A, of which the recorded marks of parameters tell.
"""

from __future__ import annotations

from tests.layout_bed.cases import LayoutCase, Place
from tests.megatron.layouts import LAYOUTS
from tests.megatron.runs import FAULTS, Run


class Case(LayoutCase):
    """Two runs of megatron-core. Right is a line of the edited function."""

    @property
    def expected(self) -> str:
        return f"{self.fault.function} {self.fault.functions}"

    def is_place(self, place: Place) -> bool:
        return self.fault.is_place(str(place.path), place.line, place.function)


def _cases() -> list[Case]:
    result = []
    for name, layout in LAYOUTS.items():
        again = Run(layout, "again"), Run(layout)
        result.append(Case(f"correct/{name}/again", *again, merged=False))
        if layout.size > 1:
            result.append(Case(f"correct/{name}/again-merged", *again))
            single = LAYOUTS[layout.single]
            result.append(Case(f"correct/{name}/{single.name}", Run(layout), Run(single)))
            if layout.size == layout.tp:
                result.append(Case(f"correct/{name}/untold", Run(layout), Run(single), merged=False))
    for fault in FAULTS.values():
        layout = LAYOUTS[fault.mode]
        target, single = Run(layout, fault.name), Run(LAYOUTS[layout.single])
        result.append(Case(f"fault/{fault.mode}/{fault.name}", target, single, fault))
        if layout.size == layout.tp:
            result.append(Case(f"untold/{fault.mode}/{fault.name}", target, single, fault, merged=False))
        result.append(Case(f"equal/{fault.mode}/{fault.name}", target, Run(layout), fault, merged=False))
    return result


CASES = _cases()
