"""The result of an accuracy pre-check for programs: a JSON document (``schemas/acc_check.schema.json``), JUnit XML.

In the XML every call is a case. It fails with status ``error``, and passes with ``warning``, which stands in its text,
so a green report and ``--fail-on error`` agree; a call that could not be checked is skipped, with the reason.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree as ET

from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status
from msprobe.precheck.outcome import PrecheckResult
from msprobe.precheck.result_model import FailingCall, FailingValue, PrecheckDocument, StatusText
from msprobe.report.junit_xml import add_case, add_result, document, xml_text

_CLASS = "msprobe.acc_check"


def json_document(result: PrecheckResult) -> str:
    """Return the result as JSON: the verdict, the numbers, and every call that does not pass."""
    content = PrecheckDocument(
        verdict=result.verdict,
        dump=result.dump,
        device=result.device,
        policy=result.policy,
        counts={str(status): result.counts[status] for status in Status},
        failing=[_call(result, call) for call in result.failing],
        skipped={call.name: call.message for call in result.calls if call.status is Status.SKIP},
        result=str(result.tables.result),
        details=str(result.tables.details),
    )
    return json.dumps(asdict(content), indent=1, ensure_ascii=False)


def write_json(path: Path, result: PrecheckResult) -> None:
    """Write the result as JSON, replacing an earlier one in one step.

    Raises:
        OSError: it cannot be written.
    """
    _write(path, json_document(result).encode("utf-8", "backslashreplace"))


def write_junit(path: Path, result: PrecheckResult) -> None:
    """Write the result as JUnit XML, replacing an earlier one in one step.

    Raises:
        OSError: it cannot be written.
    """
    root = ET.Element("testsuites", name="msprobe acc_check")
    suite = ET.SubElement(root, "testsuite", name=xml_text(result.dump))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("device", result.device), ("policy", result.policy), ("verdict", result.verdict)):
        ET.SubElement(properties, "property", name=name, value=xml_text(value))
    for call in result.calls:
        _add_call(suite, result, call)
    for name, status in result.resumed.items():
        case = add_case(suite, _CLASS, name)
        if status is Status.ERROR:
            add_result(case, "failure", "error", f"see {result.tables.result}")
    _write(path, document(root))


def _add_call(suite: ET.Element, result: PrecheckResult, call: CheckedCall) -> None:
    case = add_case(suite, _CLASS, call.name)
    if call.status is Status.ERROR:
        add_result(case, "failure", "error", call.message, "\n".join(result.stacks.get(call.name, [])))
    elif call.status is Status.SKIP:
        add_result(case, "skipped", "", call.message)
    elif call.status is Status.WARNING:
        ET.SubElement(case, "system-out").text = xml_text(f"warning: {call.message}")


def _call(result: PrecheckResult, call: CheckedCall) -> FailingCall:
    return FailingCall(
        name=call.name,
        status=_text(call.status),
        forward=str(call.forward),
        backward=str(call.backward),
        message=call.message,
        source=result.source_of(call),
        stack=result.stacks.get(call.name, []),
        values=[_value(value) for value in call.values if value.message],
    )


def _value(value: CheckedValue) -> FailingValue:
    return FailingValue(value.name, _text(value.status), value.dtype, list(value.shape), value.message)


def _text(status: Status) -> StatusText:
    text: StatusText = status.value
    return text


def _write(path: Path, content: bytes) -> None:
    make_folder(path.absolute().parent)
    write_atomic(path, [content])
