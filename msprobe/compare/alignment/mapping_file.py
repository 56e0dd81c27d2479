"""A mapping file as a tree of values with their lines, so that every error message can name line and key.

YAML is read once and checked as a whole before anything is applied. All scalars stay texts: ``0``, ``on`` and ``1.0``
are names here. From Python the content itself can be passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compare.inputs.locations import is_path, opened
from msprobe.core.errors import ReadError
from msprobe.core.yaml_file import YamlError, compose_yaml

if TYPE_CHECKING:
    import yaml

Content = str | None | list["Marked"] | dict[str, "Marked"]
_DEEPEST, _LARGEST = 20, 64 << 20
_NULL = "tag:yaml.org,2002:null"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Marked:
    """A value of a mapping, and where it stands.

    Args:
        value: a text, None, or a list or dict of marked values.
        where: ``cell.yaml, line 3``; for content from Python the keyword and the keys down to the value.
    """

    value: Content
    where: str

    def fail(self, reason: str) -> ReadError:
        """Return the error to raise about this value."""
        return ReadError(f"{self.where}: {reason}")

    def text(self, what: str) -> str:
        """Return the value as a text that is not empty; ``what`` names it in messages.

        Raises:
            ReadError: the value is something else.
        """
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.fail(f"{what} is a name, not {_shown(self.value)}")
        return self.value.strip()

    def table(self, what: str) -> dict[str, Marked]:
        """Return the value as a dict; None is an empty dict. ``what`` names it in messages.

        Raises:
            ReadError: the value is something else.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.fail(f"{what} is written as `key: value` lines, not as {_shown(self.value)}")
        return self.value

    def items(self, what: str) -> list[Marked]:
        """Return the value as a list; ``what`` names it in messages.

        Raises:
            ReadError: the value is something else.
        """
        if not isinstance(self.value, list):
            raise self.fail(f"{what} is a list, not {_shown(self.value)}")
        return self.value


def read_mapping(given: Any, what: str, noun: str = "mapping") -> Marked:
    """Return a mapping of a file, or of content from Python.

    Args:
        given: the path or URL of a YAML file, or lists, dicts and texts. A mapping that was read already is returned.
        what: the kind of mapping for messages, such as ``cell``.
        noun: what is said of it in messages, if it is no mapping.

    Raises:
        ReadError: the file cannot be read or is no YAML; says the line.
    """
    if isinstance(given, Marked):
        return given
    if not is_path(given):
        return _from_python(given, f"{what} {noun}", 0)
    path = opened(given)
    try:
        if path.stat().st_size > _LARGEST:
            raise ReadError(f"{path}: too large for a file of this kind ({path.stat().st_size >> 20} MiB)")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReadError(
            f"{path}: the {what} {noun} cannot be read ({error.strerror or error}); check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: the {what} {noun} is no text in UTF-8 (byte {error.start})") from error

    try:
        node = compose_yaml(text)
        return Marked(None, str(path)) if node is None else _Reader(path).marked(node, 0)
    except YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise ReadError(f"{path}{line}: no valid YAML ({error.problem}); correct it") from error


class _Reader:
    """Turns YAML nodes into marked values; a node that anchors repeat is turned once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cache: dict[int, Marked] = {}

    def marked(self, node: yaml.Node, depth: int) -> Marked:
        """Return the value of a node; ``depth`` is the number of nodes around it."""
        value = self._cache.get(id(node))
        if value is None:
            value = self._cache[id(node)] = self._converted(node, depth)
        return value

    def _converted(self, node: yaml.Node, depth: int) -> Marked:
        import yaml

        where = f"{self._path}, line {node.start_mark.line + 1}"
        if depth > _DEEPEST:
            raise ReadError(f"{where}: nested too deep for a mapping")
        if isinstance(node, yaml.MappingNode):
            return Marked(dict(self._entries(node, depth)), where)
        if isinstance(node, yaml.SequenceNode):
            return Marked([self.marked(child, depth + 1) for child in node.value], where)
        return Marked(None if node.tag == _NULL else str(node.value), where)

    def _entries(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, Marked]]:
        import yaml

        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ReadError(f"{self._path}, line {line}: a key is a name, not a list or a table")
            name = str(key.value).strip()
            if name in lines:
                raise ReadError(f"{self._path}, line {line}: {_shown(name)} is there already, in line {lines[name]}")
            lines[name] = line
            marked = self.marked(value, depth + 1)
            yield name, Marked(None, f"{self._path}, line {line}") if marked.value is None else marked


def _from_python(given: Any, where: str, depth: int) -> Marked:
    if depth > _DEEPEST:
        raise ReadError(f"{where}: nested too deep for a mapping")
    if isinstance(given, Mapping):
        table = {str(key): _from_python(value, f"{where}, key {key!r}", depth + 1) for key, value in given.items()}
        return Marked(table, where)
    if isinstance(given, (list, tuple)):
        items = [_from_python(item, f"{where}, item {index}", depth + 1) for index, item in enumerate(given)]
        return Marked(items, where)
    return Marked(None if given is None else str(given), where)


def _shown(value: Any) -> str:
    """Return a value as messages show it."""
    if value is None:
        return "nothing"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    text = repr(str(value))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
