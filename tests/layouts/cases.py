"""A case: two runs of the model in two layouts, and what a comparison of them has to say.

``correct/A/B``: both are right, and so the same; ``again`` is a second run of A, compared rank by rank, and
``again-merged`` one of which the ranks are merged. ``fault/A/NAME``: A with a fault against one process.
``equal/A/NAME``: against the same layout, rank by rank. ``combined/A+B/NAME``: A with a fault against another layout
than one process.
"""

from __future__ import annotations

from tests.layout_bed.cases import LayoutCase, Place
from tests.layouts.layouts import LAYOUTS
from tests.layouts.runs import FAULTS, PROGRAM, Run

Lines = set[tuple[str, int]]
"""Names of files of the program with numbers of lines."""
PAIRS = (
    ("single_micro4", "single"),
    ("tp2", "tp4"),
    ("tp2", "tp2_sp"),
    ("tp4", "tp2_sp"),
    ("tp2_sp", "tp2_sp_recompute"),
    ("tp2_bf16", "tp2_sp_bf16"),
    ("pp2_gpipe", "pp2"),
    ("pp2", "pp4"),
    ("pp4_gpipe", "pp4"),
    ("pp2_vpp2", "pp2"),
    ("pp2_vpp2", "pp4"),
    ("pp2", "pp2_recompute"),
    ("pp2", "single"),
    ("cp2", "cp2_zigzag"),
    ("tp2", "cp2"),
    ("tp2", "dp2"),
    ("cp2", "dp2"),
    ("dp2", "dp2_ddp"),
    ("dp2", "dp2_zero1"),
    ("dp2_ddp", "dp2_fsdp2"),
    ("dp2_fsdp2", "dp4_hsdp"),
    ("dp2_fsdp2", "tp2_dp2"),
    ("dp2_micro4", "pp2"),
    ("dp2_micro4", "dp2"),
    ("tp2_pp2", "pp2"),
    ("tp2_pp2", "pp2_dp2_zero1"),
    ("tp2_dp2", "tp2_sp_cp2"),
    ("cp2_dp2", "tp2_dp2"),
    ("ep2", "ep2_dp4"),
    ("ep2", "tp2_sp_experts"),
    ("ep2_tp2_sp", "tp2_experts"),
    ("ep2_pp2", "pp2_experts"),
    ("tp2_fp8", "tp2_dp2_fp8"),
)
"""Layouts that are compared with one another, besides each with one process and with itself."""
COMBINED = (
    ("tp2", "tp4", "scale"),
    ("tp2", "tp2_sp", "row-not-reduced"),
    ("tp2_sp", "tp2", "norms-not-reduced"),
    ("tp2_sp", "tp2_sp_recompute", "dropout-equal-on-ranks"),
    ("pp2", "pp4", "embedding-not-reduced"),
    ("pp2", "pp2_gpipe", "micro-batch-twice"),
    ("pp2_vpp2", "pp2", "layer-number-in-stage"),
    ("cp2", "cp2_zigzag", "position-offset"),
    ("dp2", "dp2_ddp", "gradients-not-averaged"),
    ("dp2_zero1", "dp2", "parameters-not-updated"),
    ("ep2", "ep2_dp4", "expert-gradients-scaled"),
    ("tp2_sp_experts", "ep2", "router-not-reduced"),
    ("pp2", "single", "loss-not-divided"),
)
"""Layout with a fault, another layout, and the fault."""


class Case(LayoutCase):
    """Two runs of the model. Right is a line of the edit; an edit changes no numbers of lines."""

    @property
    def expected(self) -> str:
        return ", ".join(f"{file}:{line}" for file, line in sorted(self._lines()))

    def is_place(self, place: Place) -> bool:
        return (place.path.name, place.line) in self._lines()

    def _lines(self) -> Lines:
        texts = {path.name: path.read_text(encoding="utf-8") for path in PROGRAM}
        return {(name, line) for name, text in texts.items() for line in self.fault.lines(self.fault.edited(text))}


def _cases() -> list[Case]:
    pairs = [(name, layout.single) for name, layout in LAYOUTS.items() if name != layout.single]
    result = [Case(f"correct/{a}/{b}", Run(LAYOUTS[a]), Run(LAYOUTS[b])) for a, b in (*pairs, *PAIRS)]
    for name, layout in LAYOUTS.items():
        again = Run(layout, "again"), Run(layout)
        result.append(Case(f"correct/{name}/again", *again, merged=False))
        if layout.size > 1:
            result.append(Case(f"correct/{name}/again-merged", *again))
    for fault in FAULTS.values():
        layout = LAYOUTS[fault.mode]
        target = Run(layout, fault.name)
        result.append(Case(f"fault/{fault.mode}/{fault.name}", target, Run(LAYOUTS[layout.single]), fault))
        result.append(Case(f"equal/{fault.mode}/{fault.name}", target, Run(layout), fault, merged=False))
    for mode, other, name in COMBINED:
        target = Run(LAYOUTS[mode], name)
        result.append(Case(f"combined/{mode}+{other}/{name}", target, Run(LAYOUTS[other]), FAULTS[f"{mode}-{name}"]))
    return result


CASES = _cases()
