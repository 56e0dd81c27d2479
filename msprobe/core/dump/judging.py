"""Tasks that judge each call when it is over and keep real data only of the calls that are found guilty.

A judge sees the body of a finished call and answers with a ``Verdict``. Until then copies of the call's tensors are
held: an in-place operator would overwrite its own inputs. With the last finding that the configuration allows,
collection ends for the whole process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.backend.protocols import TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.dump.leaf import LeafTask
from msprobe.core.dump.record import UNRELATED, CallRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.log import logger
from msprobe.core.store.journal import POINT

_POINT = re.compile(rf"\.\d+{re.escape(POINT)}(\.|$)")
INPUTS = ("input_args", "input_kwargs", "input", "parameters")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a call. ``finding`` says in words what was found, None when there is nothing; ``wait`` that the
    call can be judged only when more calls are over.
    """

    record: bool = True
    finding: str | None = None
    wait: bool = False


class Judge(Protocol):
    """Decides on one finished call at a time."""

    def conclusion(self) -> str:
        """What is to be said when the step is over."""
        ...

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> Verdict:
        """The verdict on a call that is over; ``final`` when nothing follows it, so that waiting is of no use."""
        ...


class Findings:
    """How many calls were found, and how many may be: ``limit`` calls, or without end for -1. One per session."""

    def __init__(self, limit: int, on_last: Callable[[], None]) -> None:
        self.limit = limit
        self.count = 0
        self._on_last = on_last

    @property
    def exhausted(self) -> bool:
        return 0 <= self.limit <= self.count

    def add(self, name: str, finding: str) -> None:
        self.count += 1
        logger.warning("finding %d: %s: %s", self.count, name, finding)
        if self.exhausted:
            logger.info("%d of %d findings asked for: nothing more is collected", self.count, self.limit)
            self._on_last()


class HeldLeaves(LeafTask[Any]):
    """Holds a copy of each tensor that might have to be saved, until its call is judged."""

    def __init__(self, ops: TensorOps[Any], summary_mode: str, folder: Path | None) -> None:
        super().__init__(ops, summary_mode, folder)
        self._held: dict[int, tuple[dict[str, Any], str, Callable[[], Any]]] = {}

    def save(self, tensor: Any, place: str, node: dict[str, Any]) -> None:
        if _POINT.search(place):  # a point of the user's choice is nobody's to judge
            super().save(tensor, place, node)
            return
        snapshot = self.ops.snapshot(tensor)
        if snapshot is not None:
            self._held[id(node)] = (node, place, snapshot[0])

    def release(self, nodes: Iterator[dict[str, Any]], keep: bool) -> None:
        """Write the copies of these nodes, or let go of them."""
        for node in nodes:
            held = self._held.pop(id(node), None)
            if held is not None and keep:
                super().save(held[2](), held[1], node)


class JudgedRecording(Recording):
    """A recording whose calls pass a judge on their way to the sink."""

    judge: Judge
    findings: Findings
    held: HeldLeaves

    def use(self, judge: Judge, findings: Findings, held: HeldLeaves) -> None:
        """The judge of this step, where findings are counted, and where tensors wait for the verdict."""
        self.judge, self.findings, self.held = judge, findings, held
        self._stacks: dict[str, int] = {}  # of forward calls that were let go: their backward may be found guilty
        self._found: set[str] = set()
        self._waiting: list[CallRecord] = []

    def place(self, name: str) -> str:
        return name

    def finish(self, record: CallRecord) -> None:
        body = record.body
        if self.closed:
            self._drop(record)
            return
        if body is None:
            super().finish(record)
            return
        if self.held.ops.outstanding:
            self.held.ops.settle()
        if self._faults:
            self.tell_faults(record.name)
        verdict = self.judge.judge(record.name, body)
        if verdict.wait:
            self._waiting.append(record)
            return
        self._settle(record, body, verdict)
        if self._waiting:
            self._settle_waiting()

    def end(self) -> None:
        self._settle_waiting(final=True)
        super().end()

    def conclusion(self) -> str | None:
        return self.judge.conclusion()

    def _settle_waiting(self, final: bool = False) -> None:
        """Ask again about the records that had to wait."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            body = record.body
            if self.closed or body is None:
                self._drop(record)
                continue
            verdict = self.judge.judge(record.name, body, final)
            if verdict.wait:
                self._waiting.append(record)
            else:
                self._settle(record, body, verdict)

    def _settle(self, record: CallRecord, body: dict[str, Node], verdict: Verdict) -> None:
        """Write what the verdict lets through."""
        tensors = self.selection.tensors
        listed = tensors is not None and tensors(record.name)
        self.held.release(tensor_nodes(body), verdict.finding is not None or (verdict.record and listed))
        if not verdict.record:
            if record.stack is not None:
                self._stacks[record.name] = record.stack
            record.body = record.stack = None
        elif record.stack is None and verdict.finding is not None:
            record.stack = self._stacks.get(".forward".join(record.name.rsplit(".backward", 1)))
        super().finish(record)
        if verdict.finding is not None and record.name not in self._found:  # gradients of a module come one by one
            self._found.add(record.name)
            self.findings.add(record.name, verdict.finding)
            self.closed = self.findings.exhausted

    def _drop(self, record: CallRecord) -> None:
        if record.body is not None:
            self.held.release(tensor_nodes(record.body), False)
        record.body = record.stack = None
        record.parent = UNRELATED


def sides(name: str, body: dict[str, Node]) -> tuple[dict[str, Node], dict[str, Node]]:
    """What went into a call and what came out of it, by section of its body; a lone gradient came out."""
    given = {key: body[key] for key in INPUTS if key in body}
    made = {key: value for key, value in body.items() if key not in given}
    return given, made


def leaf_nodes(node: Node, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor and scalar below ``node`` with its dotted path; what has no form (None) is left out."""
    if isinstance(node, list):
        for position, part in enumerate(node):
            yield from leaf_nodes(part, f"{path}.{position}" if path else str(position))
    elif isinstance(node, dict):
        if isinstance(node.get("type"), str):
            yield path, node
        else:
            for key, part in node.items():
                yield from leaf_nodes(part, f"{path}.{key}" if path else key)


def is_tensor_node(node: Any) -> bool:
    return isinstance(node, dict) and "shape" in node and "dtype" in node


def tensor_nodes(node: Node) -> Iterator[dict[str, Any]]:
    return (leaf for _, leaf in leaf_nodes(node) if is_tensor_node(leaf))
