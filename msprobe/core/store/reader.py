"""Read dumps: find them below a path, and load one in whatever state its process left it.

    for place in find_dumps(Path("dump_path")):          # every step and process below a root, step or process folder
        dump = load_dump(place)                          # dump.data, dump.stacks, dump.construct, dump.tensor_folder

A ``dump.journal`` is newer than the documents beside it (the process still runs or died) and is read instead of them,
also where a document does not exist yet. A process that was killed just after a step began leaves a dump without
records (``ended_at_start``). Documents are parsed by a compiled parser that keeps NaN and Infinity; only their outline
is checked. ``read_json_object`` reads any file that holds one JSON object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic_core import from_json

from msprobe.core.errors import ReadError, json_text
from msprobe.core.host import paused_gc
from msprobe.core.interruption import ignored
from msprobe.core.repeated_keys import repeated_key
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, JOURNAL, STACK, TENSORS
from msprobe.core.store.runs import ALL, ChosenRun, chosen_run, tell_of_later_run
from msprobe.core.store.safe_files import regular

_STEP = re.compile(r"step(\d+)$")
_PROCESS = re.compile(r"(rank|proc|rank\d+_)(\d*)$")
_KERNELS = re.compile(r"rank_\d+$")
_MODES = ("graph", "pynative")
_RECORDS = (DUMP, DEBUG, JOURNAL)
_LONGEST_HEADER = 1 << 16
"""Bytes beyond which a journal holds more than its header, in any case."""
_GIVE = f"give the dump_path of a run, a step or rank folder of it, or a {DUMP}"
_AGAIN = "copy it again, or record the run again"
_DO_WITHOUT = "copy it again, or remove it: a dump is read without it too"


@dataclass(frozen=True, slots=True)
class Place:
    """The location of the records of one process in one step.

    Attributes:
        document: the file with the records.
        step: the step, when the folder names one.
        kind: ``rank``, ``proc``, ``rank0_`` (a rank that several processes have, with the process id) or "" for a
            folder of another name. Below ``graph`` and ``pynative``, the folders of MindSpore programs of both modes,
            it begins with that name (``pynative_rank``).
        number: the rank or process id, when the folder names one.
    """

    document: Path
    step: int | None = None
    kind: str = ""
    number: int | None = None

    @property
    def label(self) -> str:
        """Return ``rank0``, ``proc4711`` or "": the words used in file names and messages."""
        return f"{self.kind}{'' if self.number is None else self.number}"

    @property
    def mode(self) -> str:
        """Return ``graph``, ``pynative``, or "" for a program of one mode."""
        return next((mode for mode in _MODES if self.kind.startswith(f"{mode}_")), "")


@dataclass(frozen=True, slots=True)
class Dump:
    """One loaded dump.

    Attributes:
        place: its location.
        task: the task that it was recorded with; "" where the process was killed before it said so.
        level: the level that it was recorded with.
        framework: the framework of the program.
        data: the records of dump.json, by entry name.
        stacks: call stacks, by the name of the forward entry; innermost frame first.
        has_stacks: whether there is a stack.json.
        construct: construct.json, from entry names to the names of their parents.
        recovered: whether it was read from a journal.
        header: the fields of dump.json except ``data``.
        merged: whether it is one model that several ranks hold together.
    """

    merged: ClassVar[bool] = False
    place: Place
    task: str
    level: str | None
    framework: str | None
    data: dict[str, dict[str, Any]]
    stacks: dict[str, list[str]] = field(default_factory=dict)
    has_stacks: bool = False
    construct: dict[str, Any] = field(default_factory=dict)
    recovered: bool = False
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def tensor_folder(self) -> Path:
        """The folder of the tensor files; it may not exist."""
        return self.place.document.parent.joinpath(TENSORS)


def find_dumps(path: Path, run: str | None = None) -> list[Place]:
    """Return every dump at or below a document, process folder, step folder or dump root, sorted by step.

    Of several runs that have recorded into the folder, the dumps of one are returned (``find_run``).

    Raises:
        ReadError: the path does not exist or holds no dump, or not this run; the message names what it holds.
    """
    return find_run(path, run).places


def find_run(path: Path, run: str | None = None) -> ChosenRun:
    """Return the dumps of one run at or below a path, sorted by step, and what is left unread of others.

    Args:
        path: the document or folder.
        run: the run, as ``runs.chosen_run`` takes it; None for the newest.

    Raises:
        ReadError: the path does not exist or holds no dump, or not this run; the message names what it holds.
    """
    if path.is_file() or _in_journal(path):
        if path.suffix != ".json" and path.name != JOURNAL:
            raise ReadError(f"{path}: no dump, its name does not end in .json; {_GIVE}")
        return _told(ChosenRun([_place(path.parent, path)]), path)
    if not path.is_dir():
        raise ReadError(f"{path}: no such file or folder; {_GIVE}")
    places = [place for folder in _folders(path) for place in _in_folder(folder)]
    if not places:
        places = [
            _in_mode(mode, place)
            for mode in _MODES
            if path.joinpath(mode).is_dir()
            for place in find_dumps(path.joinpath(mode), ALL)
        ]
    if not places:
        raise ReadError(_without_dump(path))
    places.sort(key=lambda place: (-1 if place.step is None else place.step, place.kind, place.number or 0))
    return _told(chosen_run(places, path, run), path)


def _told(chosen: ChosenRun, path: Path) -> ChosenRun:
    """Return the dumps, and say where those of a single step are left of a run before that of the steps beside it."""
    place = chosen.places[0]
    step = place.document.resolve().parents[1 if place.kind else 0]
    if place.step is None or not path.resolve().is_relative_to(step):
        return chosen
    with ignored(OSError):  # the folder around may be closed to others
        beside = {int(match[1]): child for child in step.parent.iterdir() if (match := _STEP.match(child.name))}
        first = beside[min(beside)] if beside else step
        if first.name != step.name:
            tell_of_later_run(chosen.places, [one for folder in _folders(first) for one in _in_folder(folder)])
    return chosen


def _in_journal(path: Path) -> bool:
    """Return whether ``path`` is a document that its process has not written yet or never wrote."""
    return path.name in (DUMP, DEBUG) and path.with_name(JOURNAL).is_file()


def _in_mode(mode: str, place: Place) -> Place:
    return replace(place, kind=f"{mode}_{place.kind or 'dump'}")


def _without_dump(path: Path) -> str:
    """Return the message for a folder without a dump."""
    names = sorted(child.name for child in path.iterdir())
    if _KERNELS.match(path.name) or any(map(_KERNELS.match, names)):
        return f"{path}: kernel files of MindSpore's runtime; make a dump of them: msprobe import {path} -o FOLDER"
    content = ", ".join(names[:5]) or "nothing"
    return f"{path}: no {DUMP} in it or in its step and rank folders (found: {content}); {_GIVE}"


def _folders(path: Path) -> list[Path]:
    """Return the folders that may hold a document: the path itself, its process folders or those of its steps."""
    if any(path.joinpath(name).is_file() for name in _RECORDS):
        return [path]
    children = [child for child in path.iterdir() if child.is_dir()]
    processes = [child for child in children if _PROCESS.match(child.name)]
    steps = [child for child in children if _STEP.match(child.name)]
    return processes or [folder for step in steps for folder in step.iterdir() if _PROCESS.match(folder.name)]


def _in_folder(folder: Path) -> list[Place]:
    if folder.joinpath(JOURNAL).is_file() or folder.joinpath(DUMP).is_file():
        return [_place(folder, folder.joinpath(DUMP))]
    return [_place(folder, folder.joinpath(DEBUG))] if folder.joinpath(DEBUG).is_file() else []


def _place(folder: Path, document: Path) -> Place:
    folder = folder.resolve()
    process = _PROCESS.match(folder.name)
    step = _STEP.match(folder.parent.name if process else folder.name)
    number = int(process[2]) if process and process[2] else None
    return Place(document, int(step[1]) if step else None, process[1] if process else "", number)


def load_dump(place: Place) -> Dump:
    """Load the documents at ``place``; a journal beside dump.json or debug.json wins over them.

    Raises:
        ReadError: a document is damaged or is not what its name says.
    """
    journal = place.document.with_name(JOURNAL)
    with paused_gc():
        if place.document.name in _RECORDS and journal.is_file():
            recovered = _from_journal(place, journal)
            if recovered is not None:
                return recovered
        return _from_documents(place)


def only_dump(path: Path) -> Dump:
    """Load the one dump at or below a path.

    Raises:
        ReadError: there is none, several, or a damaged one.
    """
    places = find_dumps(path)
    if len(places) > 1:
        raise ReadError(
            f"{path}: holds {len(places)} dumps; give the dump.json of one step and rank, such as {places[0].document}"
        )
    return load_dump(places[0])


def _from_journal(place: Place, journal: Path) -> Dump | None:
    from msprobe.core.store.journal import fold  # not free, and most runs end

    points = place.document.name == DEBUG
    try:
        with _local(journal) as local:
            folded = fold(local, points=points)
    except ReadError:
        if journal.is_file():
            raise
        return None  # the run ended just now and folded it itself
    if points and not folded.data:
        return None  # nothing was saved: there will be no debug.json
    if not folded.header:  # killed while it created the journal; or a power cut has emptied it
        if place.document.is_file():
            return replace(_from_documents(place), recovered=True)
        return Dump(place, task="", level=None, framework=None, data={}, recovered=True)
    return _build(place, {**folded.header, "data": folded.data}, folded.stack, folded.construct, recovered=True)


@contextmanager
def damage_named(*places: Place) -> Iterator[None]:
    """Raise a ReadError for an error over records of these dumps, where one of them is damaged.

    Records are not checked when they are read: a list in the place of a number shows itself wherever it is used.

    Raises:
        ReadError: says which record of which document is damaged, and how.
    """
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        from msprobe.core.store.record_walk import first_damage  # only where something is wrong

        for place in places:
            dump = load_dump(place)
            reason = first_damage({**dump.header, "data": dump.data})
            if reason:
                raise ReadError(f"{place.document}: damaged at {reason}; {_AGAIN}") from error
        raise


NO_CALLS = "ended before it recorded a call there"
"""What is said of a process for which ``ended_at_start`` is true."""


def ended_at_start(place: Place) -> bool:
    """Return whether the process at ``place`` ended before it recorded a call there; only a killed one does.

    A dump that cannot be read counts as one with records: loading it says what is wrong.
    """
    journal = place.document.with_name(JOURNAL)
    try:
        if place.document.name not in _RECORDS or not journal.is_file() or journal.stat().st_size > _LONGEST_HEADER:
            return False
        dump = load_dump(place)
    except (OSError, ReadError):
        return False
    return dump.recovered and not dump.data


@contextmanager
def _local(path: Path) -> Iterator[Path]:
    """Yield the file itself, or a temporary copy of a file in remote storage."""
    if isinstance(cast(object, path), Path):
        yield path
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="msprobe-") as folder:
        copy = Path(folder).joinpath(path.name)
        copy.write_bytes(path.read_bytes())
        yield copy


def _from_documents(place: Place) -> Dump:
    return dump_of(place, read_json_object(place.document, remedy=_AGAIN))


def dump_of(place: Place, document: dict[str, Any]) -> Dump:
    """Return the dump whose dump.json holds ``document``, with the documents beside it.

    Raises:
        ReadError: a document is damaged or is not what its name says.
    """
    stack_path, construct_path = place.document.with_name(STACK), place.document.with_name(CONSTRUCT)
    stack = read_json_object(stack_path, remedy=_DO_WITHOUT) if stack_path.is_file() else None
    construct = read_json_object(construct_path, remedy=_DO_WITHOUT) if construct_path.is_file() else {}
    return _build(place, document, stack, construct)


def _build(
    place: Place, document: dict[str, Any], stack: Any, construct: dict[str, Any], *, recovered: bool = False
) -> Dump:
    task, data = document.get("task"), document.get("data")
    if not isinstance(task, str) or not task:
        raise ReadError(f"{place.document}: no dump, {_wrong_part(document, 'task')}; {_GIVE}")
    if not isinstance(data, dict):
        raise ReadError(f"{place.document}: no dump, {_wrong_part(document, 'data')}; {_GIVE}")
    check_records(place, data)
    return Dump(
        place=place,
        task=task,
        level=_text_or_none(document.get("level")),
        framework=_text_or_none(document.get("framework")),
        data=data,
        stacks=_stacks(stack or {}, place),
        has_stacks=stack is not None,
        construct=construct,
        recovered=recovered,
        header={name: value for name, value in document.items() if name != "data"},
    )


def _wrong_part(document: dict[str, Any], key: str) -> str:
    """Return what is wrong with the header field ``key`` of a document that is no dump."""
    if key in document:
        return f"its `{key}` is {json_text(document[key])}"
    return f"it has no `{key}` (found: {', '.join(map(repr, islice(document, 5))) or 'nothing'})"


def check_records(place: Place, data: dict[str, Any]) -> None:
    """Check that the records of a dump are objects.

    Raises:
        ReadError: a record is not an object.
    """
    for name, body in data.items():
        if not isinstance(body, (dict, list)) and not name.endswith(".debug"):
            raise ReadError(f"{place.document}: data[{name!r}] is {json_text(body)} and no record; {_AGAIN}")


def _text_or_none(value: Any) -> str | None:
    """Return a text of the header; None for any other value."""
    return value if isinstance(value, str) else None


def _stacks(document: dict[str, Any], place: Place) -> dict[str, list[str]]:
    """Return frames by entry name; the old form of stack.json, which maps names to frames directly, is read too."""
    if all(value and isinstance(value, list) and isinstance(value[0], str) for value in document.values()):
        document = {name: [[name], frames] for name, frames in document.items()}
    for number, value in document.items():
        if not (isinstance(value, list) and len(value) == 2 and _are_texts(value[0]) and _are_texts(value[1])):
            path = place.document.with_name(STACK)
            raise ReadError(f"{path}: not a stack document (its {number!r} is not a list of names and one of frames)")
    return {name: frames for names, frames in document.values() for name in names}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and set(map(type, value)) <= {str}


def read_json_object(path: Path, such_as: str = "", remedy: str = "") -> dict[str, Any]:
    """Return the object in ``path``; NaN and Infinity are read as numbers.

    Args:
        path: the file.
        such_as: an example of the expected content, for the message when the file holds something else.
        remedy: what the user can do, for every message.

    Raises:
        ReadError: the file cannot be read, is not JSON, does not hold an object, or a key stands twice in one.
    """
    try:
        content = regular(path).read_bytes()
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror or error}){_advice(remedy)}") from error
    try:
        parsed = from_json(content, allow_inf_nan=True, cache_strings="all")
    except ValueError as error:
        raise ReadError(f"{path}: not valid JSON ({error}){_advice(remedy)}") from error
    if not isinstance(parsed, dict):
        raise ReadError(f"{path}: not a JSON object{such_as and f' such as {such_as}'}{_advice(remedy)}")
    repeated = repeated_key(content, parsed)
    if repeated:
        raise ReadError(f"{path}: {repeated}{_advice(remedy)}")
    return parsed


def _advice(remedy: str) -> str:
    return remedy and f"; {remedy}"
