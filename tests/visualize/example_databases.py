"""The databases that the viewers are given, one folder each, and names in them."""

from __future__ import annotations

from pathlib import Path

from msprobe.visualize.job import Request, visualize

RECORDED = Path(__file__).parents[1] / "golden_vis"
BLOCK = "Module.layers.0.Block.forward.0"
NORM = "Functional.layer_norm.0.forward"
RELU = "Functional.relu.0.forward"


def write_databases(root: Path) -> dict[str, Path]:
    """Write the databases below ``root``, by the name of their folder."""
    root.mkdir(mode=0o700)  # viewers refuse folders that others may write
    ranks = RECORDED / "build_multirank_distributed/target"
    return {
        "build": visualize(Request(target=ranks, output=root / "build")),
        "compare": visualize(Request(output=root / "compare", **_pair("compare_stat"))),
        "md5": visualize(Request(output=root / "md5", **_pair("compare_md5"))),
        "overflow": visualize(Request(output=root / "overflow", overflow=True, **_pair("compare_overflow"))),
        "tensor": visualize(Request(output=root / "tensor", **_pair("compare_tensor"))),
    }


def _pair(case: str) -> dict[str, Path]:
    return {"target": RECORDED / case / "target/rank0", "golden": RECORDED / case / "golden/rank0"}
