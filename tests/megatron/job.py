"""One process of a layout: ``python -m tests.megatron.job RANK STORE LAYOUT VARIANT=FOLDER...``.

``healthy`` and ``again`` run megatron-core as it is, the other variants are names of faults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.pytorch import PrecisionDebugger
from tests.layout_bed.runs import DUMP, record_variants
from tests.megatron.edits import edited
from tests.megatron.layouts import LAYOUTS, Layout
from tests.megatron.on_cpu import import_megatron
from tests.megatron.runs import FAULTS


def record(layout: Layout, variant: str, folder: Path, rank: int) -> Any:
    from tests.megatron.program import train

    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(folder / DUMP), "level": "mix", "task": "statistics"})
    with edited(FAULTS.get(f"{layout.name}-{variant}"), rank):
        return train(layout, debugger)


def begin(layout: Layout) -> None:
    from tests.megatron.program import initialize

    initialize(layout)


if __name__ == "__main__":
    import_megatron()
    record_variants(LAYOUTS, record, begin)
