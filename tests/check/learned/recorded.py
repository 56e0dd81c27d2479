"""Record varied programs, learn from them and hold others to it."""

from __future__ import annotations

from pathlib import Path

from msprobe.check.findings import CheckDocument
from msprobe.check.job import check, learn_relations
from msprobe.check.learned.judge import Judge
from msprobe.check.learned.relations import LearnedRelations, read_relations, write_relations
from tests.check.learned.varied_programs import Program, Variant
from tests.fresh_debugger import forget


def record(folder: Path, program: Program, variant: Variant) -> Path:
    """Run a program at level mix, and return its folder."""
    import torch

    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.set_num_threads(1)
    try:
        program(PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)}), variant)
    finally:
        forget()
    return folder


def learned(folder: Path, file: Path) -> LearnedRelations:
    """Return the relations of a run, as they are read from their file again."""
    relations, _ = learn_relations([folder])
    write_relations(relations, file)
    return read_relations(file)


def held(folder: Path, relations: LearnedRelations) -> CheckDocument:
    """Return what the relations alone say of a run."""
    document = check([folder], learned=Judge(relations, "relations.json"))
    return CheckDocument(
        findings=[one for one in document.findings if one.rule.startswith("learned:")],
        hints=[one for one in document.hints if one.rule.startswith("learned:")],
        notes=document.notes,
    )
