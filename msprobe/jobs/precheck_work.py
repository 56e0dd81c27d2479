"""The work of one worker of the accuracy pre-check: a recorded call, checked, as text.

A task names the dump, the call and the settings; dump and framework are loaded once for each worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from msprobe.core.backend.replaying import Replayer
from msprobe.core.errors import InterfaceError
from msprobe.core.store.reader import Place, load_dump
from msprobe.jobs.replayers import make_replayer
from msprobe.numerics.published.metrics import PublishedMetrics
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status, check_case
from msprobe.precheck.error_data import keep_error_data
from msprobe.precheck.settings import CheckSettings
from msprobe.replay.cases import Case, cases_of

BEST_DEVICE = "best"
WORK = "msprobe.jobs.precheck_work:work"


def task_text(document: Path, framework: str, name: str, settings: CheckSettings) -> str:
    """Return the task for one call."""
    return json.dumps([str(document), framework, name, settings.text()])


def work(task: str) -> str:
    """Check the call of a task."""
    document, framework, name, settings = json.loads(task)
    parsed = CheckSettings.parse(settings)
    return answer_text(check(case_of(document, name), replayer_of(framework, parsed.custom), parsed))


def check(case: Case, replayer: Replayer, settings: CheckSettings) -> CheckedCall:
    """Check a call, and keep its tensors where the settings ask for it."""
    run = check_case(case, replayer, settings)
    if settings.error_data is not None:
        keep_error_data(run, replayer, Path(settings.error_data))
    return run.checked


def answer_text(call: CheckedCall) -> str:
    """Return a checked call as text."""
    return json.dumps(asdict(call))


def parse_answer(text: str) -> CheckedCall:
    """Return the checked call that ``answer_text`` wrote."""
    content = json.loads(text)
    values = [_value(each) for each in content.pop("values")]
    forward, backward = Status(content.pop("forward")), Status(content.pop("backward"))
    return CheckedCall(**content, forward=forward, backward=backward, values=values)


def _value(content: Mapping[str, Any]) -> CheckedValue:
    metrics = PublishedMetrics(**content["metrics"])
    own = {"shape": tuple(content["shape"]), "status": Status(content["status"]), "metrics": metrics}
    return CheckedValue(**{**content, **own})


def case_of(document: str, name: str) -> Case:
    """Return a recorded call; the dump is loaded once for each worker."""
    return _cases(document)[name]


@lru_cache(maxsize=1)
def _cases(document: str) -> Mapping[str, Case]:
    return {case.name: case for case in cases_of(load_dump(Place(Path(document))))}


@lru_cache(maxsize=1)
def replayer_of(framework: str, custom: tuple[tuple[str, str], ...] = ()) -> Replayer:
    """Return what runs calls of a framework; it is imported once for each worker."""
    return make_replayer(framework, dict(custom))


def tested_devices(wanted: Sequence[str], framework: str) -> tuple[str, ...]:
    """Return the devices that a user has given, by their names in the framework.

    Args:
        wanted: names; ``best`` for the best one of this machine; a number, as older scripts give it, is one of the
            best kind.
        framework: whose devices they are.

    Raises:
        MsprobeException: this machine has no such device, or one is given twice.
    """
    replayer = make_replayer(framework)
    best = replayer.best_device()
    devices = tuple(best if each == BEST_DEVICE else f"{best}:{each}" if each.isdecimal() else each for each in wanted)
    if len(set(devices)) < len(devices):
        raise InterfaceError(f"-d {', '.join(wanted)}: names a device twice; give each device once")
    for device in devices:
        replayer.check_device(device)
    return devices
