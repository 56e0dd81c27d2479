"""A construct.json in which calls lie inside themselves is told, and calls pair by their names."""

from pathlib import Path

import pytest

from msprobe.compare.inputs.construct_cycles import parent_cycle
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, module, tensor, write

LINEAR, LAYER, MODEL = "Functional.linear.0.forward", "Module.m.fc.Linear.forward.0", "Module.m.Net.forward.0"
WHOLE = {LINEAR: LAYER, LAYER: MODEL, MODEL: None}
CYCLES = {
    "of itself": ({**WHOLE, LAYER: LAYER}, [LAYER, LAYER]),
    "of two": ({**WHOLE, LAYER: LINEAR}, None),
    "above": ({**WHOLE, MODEL: LAYER}, None),
    "with micro steps": ({LINEAR: [LAYER, 0], LAYER: [MODEL, 0], MODEL: [LAYER, 0]}, None),
}
DATA = {LINEAR: call([tensor()], [tensor()]), LAYER: module([tensor()], [tensor()]), MODEL: module([tensor()], [])}


@pytest.mark.parametrize("case", CYCLES)
def test_the_cycle_is_named(case: str) -> None:
    construct, expected = CYCLES[case]
    found = parent_cycle(construct)
    assert len(found) > 1 and found[0] == found[-1] and (expected is None or found == expected)
    recorded = {name: parent[0] if isinstance(parent, list) else parent for name, parent in construct.items()}
    assert [recorded[name] for name in found[:-1]] == found[1:]


def test_parents_without_a_cycle() -> None:
    assert parent_cycle(WHOLE) == [] == parent_cycle({})


@pytest.mark.parametrize("damaged", ["target", "golden", "both"])
@pytest.mark.parametrize("case", CYCLES)
def test_calls_pair_by_name(case: str, damaged: str, tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write(tmp_path / side, DATA, CYCLES[case][0] if damaged in (side, "both") else WHOLE)
    summary = compare(tmp_path / "target", tmp_path / "golden").summary
    assert (summary.verdict, summary.counts.passed, summary.counts.target_only) == ("same", summary.counts.pairs, 0)
    assert summary.reason.count("a call lies inside itself") == (2 if damaged == "both" else 1)
    assert "construct.json is damaged" in summary.reason and LAYER in summary.reason


def test_a_change_is_still_found(tmp_path: Path) -> None:
    write(tmp_path / "target", DATA | {LINEAR: call([tensor()], [tensor(2.0)])}, CYCLES["of two"][0])
    write(tmp_path / "golden", DATA, WHOLE)
    found = compare(tmp_path / "target", tmp_path / "golden").summary.first_divergence
    assert found is not None and (found.target, found.slot) == (LINEAR, "output.0")
