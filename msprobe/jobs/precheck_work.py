"""The work of one worker of the accuracy pre-check: a recorded call, checked, as text.

A task names the dump, the call and the settings; dump and framework are loaded once for each worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from msprobe.core.backend.replaying import Replayer
from msprobe.core.store.reader import Place, load_dump
from msprobe.jobs.replayers import make_replayer
from msprobe.numerics.published.metrics import PublishedMetrics
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status, check_case
from msprobe.precheck.error_data import keep_error_data
from msprobe.precheck.settings import CheckSettings
from msprobe.replay.cases import Case, cases_of

WORK = "msprobe.jobs.precheck_work:work"


def task_text(document: Path, framework: str, name: str, settings: CheckSettings) -> str:
    """Return the task for one call."""
    return json.dumps([str(document), framework, name, settings.text()])


def work(task: str) -> str:
    """Check the call of a task."""
    document, framework, name, settings = json.loads(task)
    case = _cases(document)[name]
    return answer_text(check(case, _replayer(framework), CheckSettings.parse(settings)))


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


@lru_cache(maxsize=1)
def _cases(document: str) -> Mapping[str, Case]:
    return {case.name: case for case in cases_of(load_dump(Place(Path(document))))}


@lru_cache(maxsize=1)
def _replayer(framework: str) -> Replayer:
    return make_replayer(framework)
