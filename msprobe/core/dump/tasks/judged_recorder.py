"""Tasks that judge each call when it is over, and keep real data only of the calls with a finding.

A ``Judge`` sees the body of a finished call and returns a ``CallVerdict``. Until then copies of the call's tensors are
kept, because an in-place operator would overwrite its own inputs. With the last finding that the configuration allows,
collection ends for the whole process.

``CallDependencies`` is for judges: it says on which other calls a record depends, beside its own inputs. A backward
works on values that its forward saved; the gradient of a parameter is computed by the backwards of all calls of its
module. Neither can be judged by itself when those calls were not sound. The judge decides what is sound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msprobe.core.backend.protocols import Backend, TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.call_record import UNRELATED, CallRecord
from msprobe.core.dump.record.step_recorder import RecordingPlan, StepOutput, StepRecorder
from msprobe.core.dump.record.tensor_node import MeasuredTensors, TensorNodes, tensor_nodes
from msprobe.core.log import logger
from msprobe.core.naming.names import Phase
from msprobe.core.selection import Selection
from msprobe.core.store.journal import POINT

_SAVED_VALUE = re.compile(rf"\.\d+{re.escape(POINT)}(\.|$)")


class JudgedRecorder(StepRecorder):
    """A recorder whose calls are judged before they are written.

    Args:
        nodes: makes the nodes by means of ``judging.deferred``.
    """

    def __init__(
        self,
        plan: RecordingPlan,
        selection: Selection,
        backend: Backend,
        nodes: TensorNodes,
        output: StepOutput,
        judging: Judging,
    ) -> None:
        super().__init__(plan, selection, backend, nodes, output)
        self._judge = judging.judge
        self._findings = judging.findings
        self._deferred = judging.deferred
        self._stacks: dict[str, int] = {}  # of forward calls that were not kept: their backward may have a finding
        self._reported: set[str] = set()
        self._undecided: list[CallRecord] = []

    def save_name(self, name: str) -> str:
        """Return the name to save the tensors of the entry under: every call may have a finding."""
        return name

    def write_call(self, record: CallRecord) -> None:
        """Judge the call, and write its record when the verdict keeps it."""
        body = record.body
        if self.closed:
            self._drop(record)
            return
        if body is None:
            super().write_call(record)
            return
        if self._deferred.ops.outstanding:
            self._deferred.ops.settle()
        if self._faults:
            self.log_faults(record.name)
        verdict = self._judge.judge(record.name, body)
        if verdict.defer:
            self._undecided.append(record)
            return
        self._apply(record, body, verdict)
        if self._undecided:
            self._judge_undecided()

    def end_step(self) -> None:
        """Judge what was deferred, and take nothing more."""
        self._judge_undecided(final=True)
        super().end_step()

    def conclusion(self) -> str | None:
        """Return what the judge says of the whole step."""
        return self._judge.conclusion()

    def _judge_undecided(self, final: bool = False) -> None:
        """Judge the deferred records again."""
        undecided, self._undecided = self._undecided, []
        for record in undecided:
            body = record.body
            if self.closed or body is None:
                self._drop(record)
                continue
            verdict = self._judge.judge(record.name, body, final)
            if verdict.defer:
                self._undecided.append(record)
            else:
                self._apply(record, body, verdict)

    def _apply(self, record: CallRecord, body: dict[str, Node], verdict: CallVerdict) -> None:
        """Write what the verdict keeps, and count its finding."""
        tensors = self.selection.tensors
        listed = tensors is not None and tensors(record.name)
        self._deferred.release(tensor_nodes(body), verdict.finding is not None or (verdict.keep and listed))
        if not verdict.keep:
            if record.stack is not None:
                self._stacks[record.name] = record.stack
            record.body = record.stack = None
        elif record.stack is None and verdict.finding is not None:
            record.stack = self._stacks.get(".forward".join(record.name.rsplit(".backward", 1)))
        super().write_call(record)
        if verdict.finding is not None and record.name not in self._reported:  # gradients of a module come one by one
            self._reported.add(record.name)
            self._findings.add(record.name, verdict.finding)
            self.closed = self._findings.exhausted

    def _drop(self, record: CallRecord) -> None:
        if record.body is not None:
            self._deferred.release(tensor_nodes(record.body), False)
        record.body = record.stack = None
        record.parent = UNRELATED


@dataclass(frozen=True, slots=True)
class Judging:
    """What a ``JudgedRecorder`` judges by: the judge of the step, the count of findings, and the deferred tensors."""

    judge: Judge
    findings: Findings
    deferred: DeferredTensors


class Judge(Protocol):
    """Decides on one finished call at a time."""

    needs_statistics: ClassVar[bool]
    """Whether a verdict needs statistics, so that they are taken even where ``summary_mode`` asks for xor checksums."""

    def conclusion(self) -> str:
        """Return the message for the end of the step."""
        ...

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> CallVerdict:
        """Return the verdict on a finished call. With ``final`` no call follows, so that deferring is of no use."""
        ...


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """The verdict on one call.

    Attributes:
        keep: whether the entry of the call is written.
        finding: the fault of the call, in words; None without a fault. The tensors of a call with a finding are saved.
        defer: the call can be judged only when more calls are over; ask again then.
    """

    keep: bool = True
    finding: str | None = None
    defer: bool = False


class Findings:
    """Count the findings of a session.

    Args:
        limit: how many calls with a finding are collected; -1 for any number.
        on_last: called when the last finding was added.
    """

    def __init__(self, limit: int, on_last: Callable[[], None]) -> None:
        self.limit = limit
        self.count = 0
        self._on_last = on_last

    @property
    def exhausted(self) -> bool:
        """Whether the limit is reached."""
        return 0 <= self.limit <= self.count

    def add(self, name: str, finding: str) -> None:
        """Log and count a finding; the last one ends the collection."""
        self.count += 1
        logger.warning("finding %d: %s: %s", self.count, name, finding)
        if self.exhausted:
            logger.info("%d of %d findings asked for: nothing more is collected", self.count, self.limit)
            self._on_last()


class DeferredTensors(MeasuredTensors[Any]):
    """Keep a copy of each tensor that might have to be saved until its call is judged.

    Values that the user saves by ``save`` are not judged: they are written at once.
    """

    def __init__(self, ops: TensorOps[Any], summary_mode: str, folder: Path | None) -> None:
        super().__init__(ops, summary_mode, folder)
        self._copies: dict[int, tuple[dict[str, Any], str, Callable[[], Any]]] = {}

    def save(self, tensor: Any, save_as: str, node: dict[str, Any]) -> None:
        """Copy ``tensor`` until ``release``."""
        if _SAVED_VALUE.search(save_as):
            super().save(tensor, save_as, node)
            return
        snapshot = self.ops.snapshot(tensor)
        if snapshot is not None:
            self._copies[id(node)] = (node, save_as, snapshot[0])

    def release(self, nodes: Iterator[dict[str, Any]], keep: bool) -> None:
        """Drop the copies of these nodes; with ``keep`` write their files before."""
        for node in nodes:
            entry = self._copies.pop(id(node), None)
            if entry is not None and keep:
                super().save(entry[2](), entry[1], node)


class CallDependencies:
    """The judged calls of one step."""

    def __init__(self) -> None:
        self._unsound: set[str] = set()
        self._pending: dict[str, set[str]] = {}  # calls of a module whose backward is still to come, by the module

    def record(self, name: str, sound: bool) -> None:
        """Note that the forward or backward call ``name`` is over, and whether it was sound; nothing depends on the
        gradient of a parameter."""
        owner, call, phase = split_name(name)
        if phase == Phase.PARAMETERS_GRAD.value:
            return
        if phase == Phase.FORWARD.value and owner != call:
            self._pending.setdefault(owner, set()).add(call)
        elif owner in self._pending:
            self._pending[owner].discard(call)
        if not sound:
            self._unsound.update((owner, call))

    def is_sound(self, name: str) -> bool:
        """Return whether every call that ``name`` depends on was sound, as far as these calls are over."""
        owner, call, phase = split_name(name)
        if phase == Phase.FORWARD.value:
            return True
        return (owner if phase == Phase.PARAMETERS_GRAD.value else call) not in self._unsound

    def is_complete(self, name: str) -> bool:
        """Return whether every call of the module of the gradient ``name`` had its backward."""
        return not self._pending.get(split_name(name)[0])


def split_name(name: str) -> tuple[str, str, str]:
    """Return the module or function, the call and the phase of an entry.

    ``M.forward.0`` and ``M.backward.0`` are of the same call, ``M.0``; that of ``Torch.add.0.forward`` is
    ``Torch.add.0``, which is the function as well.
    """
    head, _, last = name.rpartition(".")
    if last in (Phase.FORWARD.value, Phase.BACKWARD.value):
        return head, head, last
    owner, _, phase = head.rpartition(".")
    return owner, f"{owner}.{last}", phase
