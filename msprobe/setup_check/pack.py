"""Reads and writes the zip file of a set-up; also reads those of mindstudio-probe.

A zip file comes from somewhere else, so nothing of it is unpacked: members are read into memory, within limits, and
their names are only looked up, never used as paths.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from msprobe.core.errors import ReadError, error_text
from msprobe.core.repeated_keys import parsed
from msprobe.core.store.safe_files import make_folder, open_private, write_atomic
from msprobe.core.store.zip_bombs import UNREADABLE_ZIP, read_member, swollen_member
from msprobe.setup_check.collection.environment import collect_environment
from msprobe.setup_check.collection.hyperparameters import flat_settings
from msprobe.setup_check.document import VERSION, SetupDocument

MEMBER = "setup.json"
_LARGEST_MEMBER = 1 << 30
_LARGEST_SUM = 2 << 30
_MOST_MEMBERS = 200_000
_STEP_FILE = re.compile(r"(dataset|weights)/step(\d{1,9})/rank(\d{1,9})/(?:dataset|weight)\.json")
_RANK_FILE = re.compile(r"random/rank(\d{1,9})\.json")
_SETTINGS_FILE = re.compile(r"hyperparameters/([\w.-]+\.json)")
_STATISTICS = {"max", "min", "mean", "norm"}


def write_pack(path: Path, document: SetupDocument) -> None:
    """Write the zip file; one that exists is replaced as a whole.

    Raises:
        OSError: it cannot be written.
    """
    make_folder(path.parent)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, document.model_dump_json(indent=1))
    write_atomic(path, [data.getvalue()])


def update_pack(path: Path, change: Callable[[SetupDocument | None], SetupDocument]) -> None:
    """Replace the zip file by ``change`` of what it holds; processes of several ranks do so one after the other.

    Raises:
        OSError: it cannot be written.
    """
    make_folder(path.parent)
    with _locked(path.with_name(f".{path.name}.lock")):
        try:
            present = read_pack(path) if path.exists() else None
        except ReadError:
            present = None
        write_pack(path, change(present))


@contextlib.contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold the lock of a file; its lock file is removed at the end."""
    handle = _held(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _held(lock: Path) -> int:
    """Wait for the lock and return its open file."""
    while True:
        handle = open_private(lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_open(lock, handle):  # another process may have removed it while this one waited
            return handle
        os.close(handle)


def _is_open(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def read_pack(path: Path) -> SetupDocument:
    """Return the set-up in a zip file.

    Raises:
        ReadError: it is missing, no zip file of a set-up, damaged, too large, or of a later version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS or sum(member.file_size for member in members) > _LARGEST_SUM:
                raise ReadError(f"{path}: holds more than {_LARGEST_SUM >> 30} GB or {_MOST_MEMBERS} files; no set-up")
            if swollen := swollen_member(archive):
                raise ReadError(f"{path}: {swollen}; no set-up")
            names = {member.filename for member in members}
            if MEMBER in names:
                return _parse(path, _text(path, archive, MEMBER))
            if names & {"env", "pip"}:
                return _published(path, archive, sorted(names))
    except FileNotFoundError as error:
        raise ReadError(f"{path}: no such file; give a zip file that `msprobe config_check -d` wrote") from error
    except UNREADABLE_ZIP as error:
        raise ReadError(f"{path}: not a readable zip file ({error_text(error)})") from error
    raise ReadError(f"{path}: no set-up in it ({MEMBER} is missing); give what `msprobe config_check -d` wrote")


def _parse(path: Path, text: str) -> SetupDocument:
    try:
        document = SetupDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or MEMBER
        raise ReadError(f"{path}: {MEMBER} is damaged at {place}: {first['msg']}") from error
    if document.version > VERSION:
        raise ReadError(f"{path}: a later msprobe wrote it (version {document.version}); update msprobe to read it")
    if "format" not in document.model_fields_set:
        raise ReadError(f"{path}: {MEMBER} is of another program; give what `msprobe config_check -d` wrote")
    return document


def _text(path: Path, archive: zipfile.ZipFile, name: str) -> str:
    member = archive.getinfo(name)
    if member.file_size > _LARGEST_MEMBER:
        raise ReadError(f"{path}: {name} is larger than {_LARGEST_MEMBER >> 30} GB; it is no part of a set-up")
    return read_member(archive, member).decode("utf-8", "replace")


def _published(path: Path, archive: zipfile.ZipFile, names: list[str]) -> SetupDocument:
    """Read the members that mindstudio-probe writes."""
    present: dict[str, Any] = {
        "tool": "mindstudio-probe",
        "hyperparameters": {},
        "data": [],
        "weights": [],
        "random": [],
    }
    for name in names:
        if name == "env":
            variables = _json(path, archive, name)  # it stores all of them, secrets too
            present["environment"] = collect_environment({key: str(value) for key, value in variables.items()})
        elif name == "pip":
            present["packages"] = _packages(_text(path, archive, name))
        elif match := _SETTINGS_FILE.fullmatch(name):
            present["hyperparameters"][match[1]] = flat_settings(_json(path, archive, name))
        elif match := _STEP_FILE.fullmatch(name):
            section = "data" if match[1] == "dataset" else "weights"
            values = dict(_values(_json(path, archive, name), ()))
            tensors = {name: facts for name, facts in values.items() if facts is not None}
            others = [name for name, facts in values.items() if facts is None]
            present[section].append({
                "step": int(match[2]),
                "rank": int(match[3]),
                "tensors": tensors,
                "others": others,
            })
        elif match := _RANK_FILE.fullmatch(name):
            present["random"].append({"rank": int(match[1]), "calls": _random_calls(_json(path, archive, name))})
    try:
        return SetupDocument.model_validate(present)
    except ValidationError as error:
        raise ReadError(f"{path}: is damaged: {error.errors()[0]['msg']}") from error


def _json(path: Path, archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    try:
        value = parsed(_text(path, archive, name))
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path}: {name} is not readable JSON ({error_text(error)})") from error
    if not isinstance(value, dict):
        raise ReadError(f"{path}: {name} is not a table of names and values")
    return value


def _packages(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: version for name, _, version in pairs}


def _values(node: dict[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the dotted names and statistics of nested tensors; None for what is no tensor."""
    if node.keys() == _STATISTICS:
        yield ".".join(keys), {name: value if isinstance(value, (int, float)) else None for name, value in node.items()}
        return
    for key, part in node.items():
        if isinstance(part, dict):
            yield from _values(part, (*keys, key))
        else:
            yield ".".join((*keys, key)), None


def _random_calls(table: dict[str, Any]) -> list[Any]:
    """Return what is in the table by function and place; what is no call is left to the model, which refuses it."""
    lists = {name: places if isinstance(places, list) else [places] for name, places in table.items()}
    return [
        {**call, "function": name} if isinstance(call, dict) else call
        for name, places in lists.items()
        for call in places
    ]
