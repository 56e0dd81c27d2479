"""The modes in which a model is spread over processes, and the faults that one process gets in each of them.

A fault is an edit of the text of a program, so its line is known. Only the processes in ``ranks`` run the edited copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Mode:
    """One way to spread a model: ``train`` of the program ``programs/{program}.py`` is given ``kind``."""

    name: str
    program: str
    kind: str
    size: int = 2


@dataclass(frozen=True)
class Fault:
    """An edit of a program.

    Args:
        mode: the name of the mode.
        name: what it is about.
        old: the text that is replaced, in one line; it occurs once in ``layers.py`` or in the program.
        new: what it is replaced with.
        module: a part of the module that has to be named; "" for code outside of modules.
        at: texts in the lines of which one has to be named, where the edit runs no operation that is recorded.
        ranks: the processes that run the edited program; all where it is empty.
        entry: a part of the name of the entry that has to be named.
        origin: where such a fault was seen, such as a number in a tracker.
    """

    mode: str
    name: str
    old: str
    new: str
    module: str = ""
    at: tuple[str, ...] = ()
    ranks: tuple[int, ...] = (1,)
    entry: str = ""
    origin: str = ""

    @property
    def id(self) -> str:
        return f"{self.mode}-{self.name}"

    def edited(self, text: str) -> str:
        """Return the text of a program with the fault; the text itself where it is none of this program."""
        assert text.count(self.old) <= 1, self.id
        return text.replace(self.old, self.new)

    def lines(self, text: str) -> set[int]:
        """Return the numbers of the lines of which one has to be named, in the text of a file with the fault."""
        return {text.count("\n", 0, text.index(mark)) + 1 for mark in self.at or (self.new,) if mark in text}


MODES = {
    mode.name: mode
    for mode in (
        Mode("ddp_views", "ddp", "views"),
        Mode("ddp_unused", "ddp", "unused"),
        Mode("ddp_no_sync", "ddp", "no_sync"),
        Mode("by_hand", "reduced_by_hand", "each"),
        Mode("by_hand_flat", "reduced_by_hand", "flat"),
        Mode("fsdp1", "fsdp", "fsdp1"),
        Mode("fsdp1_flat", "fsdp", "fsdp1_flat"),
        Mode("fsdp2", "fsdp", "fsdp2", 3),
        Mode("fsdp2_mixed", "fsdp", "fsdp2_mixed"),
        Mode("hsdp1", "fsdp", "hsdp1", 4),
        Mode("hsdp2", "fsdp", "hsdp2", 4),
        Mode("tp", "tensor_parallel", "tp"),
        Mode("tp_sp", "tensor_parallel", "sp"),
        Mode("dp_tp", "tensor_parallel", "dp_tp", 4),
        Mode("tp_by_hand", "parallel_by_hand", "tp"),
        Mode("sp_by_hand", "parallel_by_hand", "sp"),
        Mode("gpipe", "pipeline", "gpipe"),
        Mode("1f1b", "pipeline", "1f1b"),
        Mode("1f1b_4", "pipeline", "1f1b", 4),
        Mode("experts", "experts", ""),
        Mode("experts_4", "experts", "", 4),
    )
}


def read_faults(path: Path, ranks: str = "1") -> dict[str, Fault]:
    """Return the faults of a table by their ids.

    In it a line names modes and fault, with what is to be named, before the two lines of the edit and, with ``@``,
    those to be named instead. ``ranks`` are those of a fault that names none.
    """
    found = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        head, old, new, *at = lines
        modes, name, *facts = head.split()
        given: dict[str, Any] = {"ranks": ranks, **dict(fact.split("=") for fact in facts)}
        given["ranks"] = tuple(int(rank) for rank in given["ranks"].split(",") if rank)
        given["at"] = tuple(line[2:] for line in at)
        found += [Fault(mode, name, old[2:], new[2:], **given) for mode in modes.split(",")]
    return {fault.id: fault for fault in found}


FAULTS = read_faults(Path(__file__).parent / "faults.txt")
