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
        at: a text in the line that has to be named, where the edit runs no operation that is recorded.
        ranks: the processes that run the edited program; all where it is empty.
        entry: a part of the name of the entry that has to be named.
    """

    mode: str
    name: str
    old: str
    new: str
    module: str = ""
    at: str = ""
    ranks: tuple[int, ...] = (1,)
    entry: str = ""

    @property
    def id(self) -> str:
        return f"{self.mode}-{self.name}"

    def edited(self, text: str) -> str:
        """Return the text of a program with the fault; the text itself where it is none of this program."""
        assert text.count(self.old) <= 1, self.id
        return text.replace(self.old, self.new)

    def line(self, text: str) -> int:
        """Return the number of the line that has to be named, in the text with the fault."""
        found = text.index(self.at or self.new)
        return text.count("\n", 0, found) + 1


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


def _faults() -> list[Fault]:
    """Return the faults of ``faults.txt``: in it a line names modes and fault, with what is to be named, before the two
    lines of the edit."""
    found = []
    for block in (Path(__file__).parent / "faults.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        head, old, new, *rest = block.splitlines()
        modes, name, *facts = head.split()
        given: dict[str, Any] = dict(fact.split("=") for fact in facts)
        if "ranks" in given:
            given["ranks"] = tuple(int(rank) for rank in given["ranks"].split(",") if rank)
        if rest:
            given["at"] = rest[0][2:]
        found += [Fault(mode, name, old[2:], new[2:], **given) for mode in modes.split(",")]
    return found


FAULTS = {fault.id: fault for fault in _faults()}
