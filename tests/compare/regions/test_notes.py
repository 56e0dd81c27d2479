"""What a comparison that agrees says about code that differs."""

from __future__ import annotations

from pathlib import Path

import msprobe
from tests.compare.dumps import call, module, number, tensor, write

BLOCK = "Module.block.Block.forward.0"
LINEAR, GELU = "Functional.linear.0.forward", "Functional.gelu.0.forward"
AGREE = "what leaves the modules or the formulas around them agrees"


def side(folder: Path, name: str, line: str) -> Path:
    data = {
        name: call([tensor(1.0)], [tensor(2.0)]),
        LINEAR: call([tensor(2.0)], [tensor(3.0)]),
        BLOCK: module([tensor(1.0)], [tensor(3.0)]),
    }
    return write(
        folder, data, {name: BLOCK, LINEAR: BLOCK, BLOCK: None}, {name: [f"File {line}, in forward, \n y = x"]}
    )


def test_the_note_names_the_lines_of_both_sides(tmp_path: Path) -> None:
    target = side(tmp_path / "t", "Tensor.__mul__.0.forward", "/new.py, line 7")
    golden = side(tmp_path / "g", "Tensor.__truediv__.0.forward", "/old.py, line 9")
    summary = msprobe.compare(target, golden).summary
    assert summary.verdict == "same"
    assert "/new.py:7 in the target and /old.py:9 in the golden run" in summary.reason


def gelu_step(folder: Path, approximate: str, value: float, result: float) -> None:
    """One step: a module with ``gelu`` inside, which has ``value``, and returns ``result``."""
    gelu = call([tensor(1.0)], [tensor(value)], approximate=number(approximate))
    data = {GELU: gelu, LINEAR: call([tensor(value)], [tensor(result)]), BLOCK: module([tensor(1.0)], [tensor(result)])}
    write(folder, data, {GELU: BLOCK, LINEAR: BLOCK, BLOCK: None})


def test_a_run_that_diverged_says_nothing_of_harmless_calls_in_other_steps(tmp_path: Path) -> None:
    for side_name, approximate, value in (("t", "tanh", 2.5), ("g", "none", 2.0)):
        gelu_step(tmp_path / side_name / "step0" / "rank0", approximate, value, value)
        gelu_step(tmp_path / side_name / "step1" / "rank0", "none", value, 3.0)
    later = msprobe.compare(tmp_path / "t" / "step1", tmp_path / "g" / "step1").summary
    assert later.verdict == "same" and f"differ without consequence: {AGREE} (first: {GELU})" in later.reason
    whole = msprobe.compare(tmp_path / "t", tmp_path / "g").summary
    assert whole.first_divergence is not None and whole.first_divergence.target == GELU
    assert "without consequence" not in whole.reason
