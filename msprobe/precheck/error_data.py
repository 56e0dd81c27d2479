"""The tensors of calls that do not pass, one file each, to look at them again.

NAME.forward.input.0.pt           NAME.backward.input.0.pt             what the call was given
NAME.forward.output.bench.0.pt    NAME.backward.output.bench.0.pt      the golden call
NAME.forward.output.device.0.pt   NAME.backward.output.device.0.pt     the device under test
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msprobe.core.backend.replaying import HeldTensor, Replayer
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder
from msprobe.precheck.checked_call import BACKWARD, FORWARD, CheckRun, Status
from msprobe.replay.judged_call import ValueJudgement


def keep_error_data(run: CheckRun, replayer: Replayer, folder: Path) -> None:
    """Write the tensors of a call whose forward or backward pass does not pass.

    Raises:
        OSError: a file cannot be written.
    """
    wrong = {Status.WARNING, Status.ERROR}
    if run.call is None or run.judgement is None or not wrong & {run.checked.forward, run.checked.backward}:
        return
    make_folder(folder)
    gradients = [gradient for gradient in run.call.gradients if gradient is not None]
    named = [
        *_numbered(f"{FORWARD}.input", run.call.tensors()),
        *_of_values(FORWARD, run.judgement.forward),
        *_numbered(f"{BACKWARD}.input", gradients),
        *_of_values(BACKWARD, run.judgement.backward),
    ]
    for place, tensor in named:
        replayer.save(tensor, folder / file_name(f"{run.checked.name}.{place}", replayer.suffix))


def _numbered(place: str, tensors: Iterator[HeldTensor] | Sequence[HeldTensor]) -> Iterator[tuple[str, HeldTensor]]:
    return ((f"{place}.{number}", tensor) for number, tensor in enumerate(tensors))


def _of_values(phase: str, values: Sequence[ValueJudgement]) -> Iterator[tuple[str, HeldTensor]]:
    for value in values:
        position = value.slot.rpartition(".")[2]
        for side, tensor in (("bench", value.golden), ("device", value.target)):
            if isinstance(tensor, HeldTensor):
                yield f"{phase}.output.{side}.{position}", tensor
