"""Two programs side by side: the lines that one has and the other lacks, and the functions that they stand in.

A dump has the files of its program (``source.json``). Where it has none, the lines of its calls are what is known.

Comments and docstrings are no code. Lines that read the same but for names that one program defines in the place of
those of the other one (``cost`` for ``loss``) are the same.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import NamedTuple

from msprobe.compare.records.source_lines import Frame, frame_of
from msprobe.core.errors import ReadError
from msprobe.core.naming.frames import is_installed
from msprobe.core.store.layout import SOURCE
from msprobe.core.store.reader import Dump, read_json_object
from msprobe.core.store.source_files import MOST_CHARACTERS
from msprobe.trace.moves import moves_of

_ALIKE = 0.75
"""The share of its lines that a file has in common with the file that it was made from, at least."""
_MODULE = "<module>"
"""What Python calls the code of a file in a stack."""
_LONG = 2000
"""Lines of a file beyond which those that occur often are no evidence: comparing all with all takes too long."""
_LOOPS = ast.For, ast.While, ast.AsyncFor
_FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
_DEFINITIONS = "def ", "async def ", "class "
_IMPORTS = "import ", "from "
_NAME = re.compile(r"([^\W\d]\w*)")


class Span(NamedTuple):
    """The lines of a function, of a loop or of a whole file; ``name`` is that of a function, and ``called`` the one by
    which it is called: that of its class for a constructor."""

    first: int
    last: int
    name: str = ""
    called: str = ""

    def __contains__(self, line: object) -> bool:
        return isinstance(line, int) and self.first <= line <= self.last


class SourceFile:
    """One file of a program.

    Args:
        lines: the text of each line that is known.
        code: the code of each line that has some.
        tree: what a parser makes of the file; nothing where it is not known.
        functions: its functions where there is no tree.

    Attributes:
        lines: each line that is known and has code, in their order.
        code: the same without comments.
        counts: how often each line of code occurs.
        functions: its functions.
        defined: the names that it defines, but by imports.
    """

    def __init__(
        self,
        lines: Mapping[int, str],
        code: Mapping[int, str],
        tree: Iterable[ast.AST] = (),
        functions: Iterable[Span] = (),
    ) -> None:
        nodes = list(tree)
        statements = [_span(node) for node in nodes if isinstance(node, ast.stmt) and not hasattr(node, "body")]
        notes = [_span(node) for node in nodes if isinstance(node, ast.Expr) and _is_text(node.value)]
        described = {number for span in notes for number in range(span.first, span.last + 1)}
        code = {number: code[number] for number in sorted(code.keys() - described)}
        self.lines, self.code = {number: lines[number] for number in code}, code
        self.counts = Counter(code.values())
        makers = {
            part: n.name for n in nodes if isinstance(n, ast.ClassDef) for part in n.body if _is_constructor(part)
        }
        self.functions = list(functions)
        self.functions += (_span(n, n.name, makers.get(n, n.name)) for n in nodes if isinstance(n, _FUNCTIONS))
        self.defined = frozenset(filter(None, map(_defined_name, nodes)))
        self._loops = [_span(node) for node in nodes if isinstance(node, _LOOPS)]
        self._long = [span for span in statements if span.first < span.last]

    @cached_property
    def names(self) -> frozenset[str]:
        """All names in its code."""
        return frozenset(name for code in self.code.values() for name in _NAME.findall(code))

    def function(self, line: int) -> Span:
        """Return the innermost function around a line, or the whole file."""
        whole = Span(min(self.lines, default=line), max(self.lines, default=line), _MODULE)
        return min((span for span in self.functions if line in span), key=_length, default=whole)

    def statement(self, line: int) -> Span:
        """Return the lines of the statement that a line stands in."""
        return max((span for span in self._long if line in span), key=_length, default=Span(line, line))

    def in_order(self, line: int, *, backwards: bool) -> list[int]:
        """Return the lines of the function around a line in the order in which a value may come there: those before it,
        the nearest first, and the rest of its statement, then those behind it; the other way round where the value is a
        gradient."""
        function = self.function(line)
        inner = [span for span in self.functions if span != function and span.first in function]
        own = [n for n in self.lines if n in function and not any(n in s and n != s.first for s in inner)]
        last = self.statement(line).last
        before, behind = [n for n in reversed(own) if n <= last], [n for n in own if n > last]
        if backwards:
            return [*behind, *before]
        loop = max((s for s in self._loops if line in s and s.first in function), key=_length, default=Span(line, line))
        return [*before, *(n for n in reversed(behind) if n in loop)]


def _length(span: Span) -> int:
    return span.last - span.first


class _Like(NamedTuple):
    """The file of the golden program that a file of the target was made from.

    Attributes:
        path: its path.
        same: its lines that the target has too, with their numbers there.
        lost: its lines that the target lacks without another line in their place, with the line where that goes on.
        other: its lines that the target has others in the place of, with the first one of these.
    """

    path: str
    same: dict[int, int]
    lost: dict[int, int]
    other: dict[int, int]


class Programs:
    """The programs of two runs.

    Attributes:
        files: the files of the target, by their path.
    """

    def __init__(self, target: Dump, golden: Dump) -> None:
        self._frames = _frames_of(target), _frames_of(golden)
        wholes = _source_files(target), _source_files(golden)
        self.files, self._golden = map(_files_of, wholes, self._frames)
        self._are_whole = all(wholes)  # else what a file lacks is not known

    @property
    def differ(self) -> bool:
        """Whether some lines of the programs are known to differ."""
        return any(self._changed.values()) or any(self.lacking.values())

    def is_changed(self, frame: Frame) -> bool:
        """Return whether the golden program lacks the line of a frame of the target, or runs no call in it."""
        return frame.line in self._changed.get(frame.path, ())

    def is_in_golden(self, frame: Frame) -> bool:
        """Return whether the golden program has the line of a frame of the target too."""
        return frame.line in self._common.get(frame.path, {}).values()

    def changed_near(self, frame: Frame, *, backwards: bool, lacking: bool = False) -> Iterator[list[Frame]]:
        """Yield the changed lines of the function that a frame of the target is in, and of those that it calls by name,
        in the order in which a value may come from there (a gradient where it goes ``backwards``): frames, innermost
        first. Or the lines before which the target lacks one."""
        lines = (self.lacking if lacking else self._changed).get(frame.path)
        if not lines:
            return
        file = self.files[frame.path]
        functions = _by_function(frame.path, file, lines)
        for line in file.in_order(frame.line, backwards=backwards):
            here = frame._replace(line=line, code=file.lines[line])
            if line in lines:
                yield [here]
                continue
            called = () if here.code.startswith(_DEFINITIONS) else re.findall(r"\b(\w+)\(", here.code)
            for name in sorted(functions.keys() & set(called)):
                yield from ([inner, here] for inner in functions[name])

    def end_of_function(self, frame: Frame) -> Frame:
        """Return a frame of the target where its function ends."""
        file = self.files.get(frame.path)
        if file is None:
            return frame
        line = file.function(frame.line).last
        return frame._replace(line=line, code=file.lines.get(line, ""))

    def only_change(self) -> Frame | None:
        """Return the first line that the golden program lacks, where all of them stand together; where it lacks none,
        the only line before which the target does. Else None."""
        places = self._new if any(self._new.values()) else self.lacking
        path, *others = [path for path, lines in places.items() if lines] or [""]
        numbers, new = list(self.files[path].lines) if path else [], sorted(places.get(path, ()))
        if others or not new or numbers[(start := numbers.index(new[0])) : start + len(new)] != new:
            return None
        return Frame(path, new[0], self.files[path].function(new[0]).name, self.files[path].lines[new[0]])

    @cached_property
    def _new(self) -> dict[str, set[int]]:
        """The lines of the target that the golden program lacks, by file; imports, which make no value, only where
        nothing else differs. A file without a counterpart has none: nothing says what it was made from."""
        new = {path: set(self.files[path].lines) - set(same.values()) for path, same in self._common.items()}
        makes = {path: {line for line in own if self._makes_value(path, line)} for path, own in new.items()}
        return makes if any(makes.values()) or any(self.lacking.values()) else new

    @cached_property
    def _changed(self) -> dict[str, set[int]]:
        """These; where there are none, the lines in which the target makes a call and the golden run none."""
        if any(self._new.values()):
            return self._new
        alone: dict[str, set[int]] = defaultdict(set)
        golden = [self.in_target(frame) for frame in self._frames[1]]
        codes, places = {frame.code for frame in golden}, {(frame.path, frame.line) for frame in golden}
        functions = {self.end_of_function(frame) for frame in golden}
        for frame in self._frames[0]:
            by_both = frame.code in codes  # in a copy of the function too
            if self.end_of_function(frame) in functions:
                by_both = (frame.path, frame.line) in places
            if not by_both and frame.path in self._common:
                alone[frame.path].add(frame.line)
        return alone

    def _makes_value(self, path: str, line: int) -> bool:
        return not self.files[path].lines[line].startswith(_IMPORTS)

    def in_target(self, frame: Frame) -> Frame:
        """Return a frame of the golden run as it is in the target; as it is where the target lacks its line."""
        found = ((own, same.get((frame.path, frame.line))) for own, same in self._common.items())
        return next((frame._replace(path=path, line=line) for path, line in found if line is not None), frame)

    def is_run_by_both(self, frame: Frame) -> bool:
        """Return whether both runs make calls in a line that reads like that of a frame."""
        return all(frame.code in {own.code for own in frames} for frames in self._frames)

    @cached_property
    def _common(self) -> dict[str, dict[tuple[str, int], int]]:
        """The lines of the golden program that a file of the target has too, by their file and number."""
        return {path: {(one.path, line): n for line, n in one.same.items()} for path, one in self._likes.items()}

    @cached_property
    def lacking(self) -> dict[str, dict[int, str]]:
        """The first line of the golden program that the target lacks before a line of its own, by file and line of the
        target."""
        return {
            path: {n: self._golden[one.path].lines[lost] for lost, n in reversed(one.lost.items())}
            for path, one in self._likes.items()
        }

    def without(self, frame: Frame) -> Frame | None:
        """Return the line before which the target lacks that of a frame of the golden run, or which it has in its
        place; None where it has it."""
        for path, one in self._likes.items():
            line = (one.lost | one.other).get(frame.line) if one.path == frame.path else None
            if line is not None:
                return Frame(path, line, self.files[path].function(line).name, self.files[path].lines[line])
        return None

    @cached_property
    def _likes(self) -> dict[str, _Like]:
        """By file of the target what it was made from."""
        found = {}
        for path, own in self.files.items():
            other = max(self._golden, key=lambda one: _likeness(one, self._golden[one], path, own), default=None)
            like = None if other is None else _like(other, self._golden[other], own)
            if like is not None and len(like.same) >= _ALIKE * len(own.lines):
                found[path] = like if self._are_whole else like._replace(lost={}, other={})
        return found


def _likeness(golden_path: str, golden: SourceFile, path: str, target: SourceFile) -> tuple[int, bool, bool, int]:
    """Return how much of a file another one has, whatever it is called: a program is copied to be changed. Of two that
    have as much, the one with fewer other lines is it."""
    shared = (golden.counts & target.counts).total()
    return shared, golden_path == path, PurePath(golden_path).name == PurePath(path).name, -golden.counts.total()


def _like(path: str, golden: SourceFile, target: SourceFile) -> _Like:
    """Return which lines of two files read the same, in one order, and which the target lacks between two of them, or
    has others for."""
    before, after = list(golden.code), list(target.code)
    texts, others = list(golden.code.values()), list(target.code.values())
    changes = _changes(texts, others)
    if names := _renamed(golden, target, changes):
        changes = _changes(texts, [_NAME.sub(lambda name: names.get(name[0], name[0]), text) for text in others])
    same, lost, other = {}, {}, {}
    for tag, i, end, j, last in changes if after else ():
        for n in range(i, end):
            if tag == "equal":
                same[before[n]] = after[j + n - i]
            elif tag == "delete":
                lost[before[n]] = after[min(j, len(after) - 1)]
            else:
                other[before[n]] = after[min(j + n - i, last - 1)]
    return _Like(path, same, lost, other)


_Changes = Sequence[tuple[str, int, int, int, int]]


def _changes(golden: list[str], target: list[str]) -> _Changes:
    return SequenceMatcher(None, golden, target, autojunk=len(golden) > _LONG).get_opcodes()


def _renamed(golden: SourceFile, target: SourceFile, changes: _Changes) -> dict[str, str]:
    """Return the names of a target that stand in the place of names of the golden program, with these: each program
    defines its own, and has the other one nowhere."""
    texts, others = list(golden.code.values()), list(target.code.values())
    own, theirs = target.defined - golden.names, golden.defined - target.names
    names: dict[str, str] = {}
    for tag, i, end, j, last in changes:
        for left, right in zip(texts[i:end], others[j:last], strict=False) if tag == "replace" else ():
            parts = _NAME.split(left), _NAME.split(right)
            if parts[0][::2] == parts[1][::2]:
                pairs = zip(parts[1][1::2], parts[0][1::2], strict=True)
                names |= {mine: other for mine, other in pairs if mine in own and other in theirs}
    once = Counter(names.values())
    return {mine: other for mine, other in names.items() if once[other] == 1}


def _by_function(path: str, file: SourceFile, lines: Iterable[int]) -> dict[str, list[Frame]]:
    """Return these lines of a file, the last one first, by how the function that each stands in is called."""
    found = defaultdict(list)
    for line in sorted(lines, reverse=True):
        function = file.function(line)
        found[function.called].append(Frame(path, line, function.name, file.lines[line]))
    return found


def _files_of(whole: Mapping[str, str], frames: Iterable[Frame]) -> dict[str, SourceFile]:
    if whole:
        return {path: _parsed(text) for path, text in whole.items()}
    lines: dict[str, dict[int, str]] = defaultdict(dict)
    functions: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for frame in frames:
        lines[frame.path][frame.line] = frame.code
        functions[frame.path][frame.function].append(frame.line)
    spans = {path: [Span(min(n), max(n), name, name) for name, n in own.items()] for path, own in functions.items()}
    return {path: SourceFile(own, own, functions=spans[path]) for path, own in lines.items()}


def _source_files(dump: Dump) -> dict[str, str]:
    """Return the texts in source.json; none where it is missing or damaged: nothing but lines is said with it."""
    path = dump.place.document.with_name(SOURCE)
    try:
        document = read_json_object(path) if path.is_file() else {}
    except ReadError:
        return {}
    return {name: text for name, text in document.items() if isinstance(text, str) and len(text) <= MOST_CHARACTERS}


def _frames_of(dump: Dump) -> list[Frame]:
    """Return the frames of a run that are code of the program, each once."""
    moves = {move.line for move in moves_of(dump, dump.data) if move.line is not None}
    frames = map(frame_of, moves.union(*dump.stacks.values()))
    return [frame for frame in frames if frame.line and frame.code and not is_installed(frame.path)]


@lru_cache(maxsize=32)  # both runs have most files in common, and so have the ranks
def _parsed(text: str) -> SourceFile:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the program, which has shown them to its user
            nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a cell with commands of a notebook
        nodes = []
    lines = {number: line.strip() for number, line in enumerate(text.split("\n"), 1)}
    return SourceFile(lines, dict(_code_lines(text)), nodes)


def _span(node: ast.stmt, name: str = "", called: str = "") -> Span:
    return Span(node.lineno, node.end_lineno or node.lineno, name, called)


def _is_constructor(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _defined_name(node: ast.AST) -> str | None:
    """Return the name that a node of a program defines: by an assignment, a function, a class, or as a parameter."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return name if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else None


def _code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the code of each line, without comments; lines without code are left out."""
    lines = text.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, SyntaxError):
        pass
    for number, line in enumerate(lines, 1):
        if code := " ".join(line.split()):
            yield number, code
