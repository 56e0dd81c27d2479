"""``op_generate``: from a dump and the name of a call to a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.config.problems import nearest
from msprobe.core.errors import InterfaceError, ReadError, error_text
from msprobe.core.naming.names import Phase
from msprobe.core.repeated_keys import parsed
from msprobe.core.store.layout import TENSORS
from msprobe.core.store.reader import Dump, only_dump
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.jobs.replayers import make_replayer
from msprobe.replay.cases import Case, cases_in, cases_of
from msprobe.single_call.request import ScriptRequest, call_name, records_text
from msprobe.single_call.script import write_script

_FOLDER = "dump_data_dir"
"""The key of ``extract_api_path`` for the folder of tensor files; the other keys are names of entries."""


def make_script(request: ScriptRequest, folder: Path) -> Path:
    """Write the script that a request asks for, and return its path.

    Raises:
        MsprobeException: the dump cannot be read, has no such call, or the call cannot be a script.
        OSError: a file cannot be written.
    """
    case, framework = _case(request)
    if request.extract is not None:
        records: dict[str, Any] = {_FOLDER: str(case.folder.absolute())}
        records[f"{case.name}.{Phase.FORWARD.value}"] = case.forward
        if case.backward is not None:
            records[f"{case.name}.{Phase.BACKWARD.value}"] = case.backward
        make_folder(request.extract.absolute().parent)
        write_atomic(request.extract, [records_text(records)])
    try:
        return write_script(case, framework, make_replayer(framework), request, folder)
    except CannotReplayError as error:
        raise InterfaceError(f"{request.dump}: {case.name}: {error}") from error


def _case(request: ScriptRequest) -> tuple[Case, str]:
    """Return the call, and the framework of the dump."""
    alone = _records_alone(request.dump)
    if alone is not None:
        folder = Path(str(alone.pop(_FOLDER, request.dump.parent / TENSORS)))
        cases = {case.name: case for case in cases_in(alone, folder)}
        framework = "mindspore" if "mindspore." in json.dumps(alone) else "pytorch"
    else:
        dump: Dump = only_dump(request.dump)
        cases, framework = {case.name: case for case in cases_of(dump)}, dump.framework or "pytorch"
    if not request.name and len(cases) == 1:
        return next(iter(cases.values())), framework
    name = call_name(request.name)
    if name not in cases:
        close = nearest(name, list(cases))
        hint = f"did you mean {close}?" if close else f"it has {len(cases)} calls of functions"
        raise InterfaceError(f"{request.dump}: no recorded call is named {name or 'so'}; {hint}")
    return cases[name], framework


def _records_alone(path: Path) -> dict[str, Any] | None:
    """Return the records of a document of ``extract_api_path``; None for a dump."""
    if not path.is_file():
        return None
    try:
        content = parsed(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ReadError(f"{path}: cannot be read: {error_text(error)}") from error
    if not isinstance(content, dict) or "data" in content:
        return None
    records = {name: each for name, each in content.items() if name != _FOLDER}
    return content if records and all(isinstance(each, dict) for each in records.values()) else None
