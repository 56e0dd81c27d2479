"""The accuracy pre-check of a dump: choose calls, check each in a worker process, and write tables as they come.

result = precheck(Request(dump, output=Path("out")))
result.verdict, result.tables.result          # a PrecheckResult
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msprobe.core.errors import NotComparableError
from msprobe.core.log import logger
from msprobe.core.store.reader import Dump, only_dump
from msprobe.core.store.safe_files import make_folder
from msprobe.jobs.executors.guarded import GuardedExecutor, Lost
from msprobe.jobs.precheck_work import BEST_DEVICE, WORK, check, parse_answer, task_text, tested_devices
from msprobe.jobs.replayers import make_replayer
from msprobe.precheck.checked_call import CheckedCall, Status, skipped
from msprobe.precheck.chosen_cases import ChosenCase, Selection, choose, unknown_names
from msprobe.precheck.outcome import PrecheckResult
from msprobe.precheck.result_tables import new_tables, resumed_tables
from msprobe.precheck.settings import CheckSettings
from msprobe.replay.cases import cases_of

ERROR_DATA = "ut_error_data"
SECONDS = 300.0
"""What one call may take, unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for.

    Attributes:
        api_info: a dump.json, or a folder with one dump.
        output: the folder for the tables.
        settings: how each call is checked; the device ``best`` is the best one of the machine.
        selection: which calls are checked.
        devices: several devices, among which the calls are dealt out in turn; empty for that of the settings.
        workers: worker processes; 0 to check in this process.
        seconds: what one call may take.
        resume: the result table of an earlier run to go on with.
        error_data: the folder below which tensors of calls that do not pass go; None to keep none.
    """

    api_info: Path
    output: Path
    settings: CheckSettings = field(default_factory=lambda: CheckSettings(BEST_DEVICE))
    selection: Selection = field(default_factory=Selection)
    devices: tuple[str, ...] = ()
    workers: int = 1
    seconds: float = SECONDS
    resume: Path | None = None
    error_data: Path | None = None


def precheck(request: Request, show: Callable[[float, float], None] | None = None) -> PrecheckResult:
    """Check the calls of a dump.

    Args:
        request: what is asked for.
        show: is told how many calls are done, of how many.

    Raises:
        MsprobeException: the input cannot be read, or the device or an option is wrong.
        NotComparableError: no recorded call is left to check.
        OSError: a table cannot be written.
    """
    dump = only_dump(request.api_info)
    framework = dump.framework or "pytorch"
    devices = tested_devices(request.devices or (request.settings.device,), framework)
    settings = replace(request.settings, device=devices[0])
    digits = settings.digits
    if request.resume:
        tables = resumed_tables(request.resume, digits, framework)
    else:
        tables = new_tables(request.output, digits, framework)
    if request.error_data is not None:
        folder = request.error_data / f"{ERROR_DATA}{tables.stamp}"
        make_folder(folder)
        settings = replace(settings, error_data=str(folder))
    chosen = list(_chosen(dump, request.selection._replace(done=tables.before)))
    result = PrecheckResult(
        tables, str(dump.place.document), ", ".join(devices), settings.policy, resumed=tables.before
    )
    for number, call in enumerate(
        _checked(dump, framework, chosen, [replace(settings, device=d) for d in devices], request)
    ):
        tables.add(call)
        result.calls.append(call)
        if call.status in (Status.WARNING, Status.ERROR):
            result.stacks[call.name] = dump.stacks.get(f"{call.name}.forward", [])
        if show is not None:
            show(number + 1, len(chosen))
    return result


def _chosen(dump: Dump, selection: Selection) -> Iterator[ChosenCase]:
    cases = list(cases_of(dump))
    if not cases:
        raise NotComparableError(
            f"{dump.place.document}: holds no forward call of a function; record it at level L1 or mix"
        )
    for option, names in (("white_list", selection.white), ("black_list", selection.black)):
        if unknown := unknown_names(cases, names):
            logger.warning("%s: no recorded call is named %s", option, ", ".join(unknown))
    chosen = list(choose(cases, selection))
    if not chosen and not selection.done:
        raise NotComparableError("white_list and black_list leave no recorded call to check")
    yield from chosen


def _checked(
    dump: Dump, framework: str, chosen: Sequence[ChosenCase], settings: Sequence[CheckSettings], request: Request
) -> Iterator[CheckedCall]:
    for each in chosen:
        if each.skipped:
            yield skipped(each.case.name, each.skipped)
    cases = [each.case for each in chosen if not each.skipped]
    if not request.workers:
        replayer = make_replayer(framework, dict(request.settings.custom))
        for number, case in enumerate(cases):
            yield check(case, replayer, settings[number % len(settings)])
        return
    document = dump.place.document.absolute()
    tasks = [
        task_text(document, framework, case.name, settings[number % len(settings)]) for number, case in enumerate(cases)
    ]
    for number, answer in GuardedExecutor(request.workers, request.seconds).run(WORK, tasks):
        yield skipped(cases[number].name, answer.reason) if isinstance(answer, Lost) else parse_answer(answer)
