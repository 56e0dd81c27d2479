"""The one loader of YAML: of files that users give, and of the tables of this package.

A file that somebody gives may be damaged or made to do harm. Objects are never made from its tags, and what its aliases
(``*name``) and merges (``<<``) stand for is counted before it is expanded: few lines can stand for more values than a
machine holds. Whatever is wrong is a ``YamlError`` with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from msprobe.core.interruption import import_whole

if TYPE_CHECKING:
    from yaml import Node

_MOST_VALUES = 100_000
"""How many values a file with aliases may stand for; without aliases its size is the bound."""


class YamlError(ValueError):
    """A text is no YAML, or none that can be used. ``line`` and ``column`` begin at 1; 0 where they are not known."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {problem}" if line else problem)
        self.problem, self.line, self.column = problem, line, column


def load_yaml(text: str) -> Any:
    """Return the value of a YAML document: lists, dicts, texts, numbers, dates.

    Raises:
        YamlError: it is none, is nested too deep, or its aliases stand for too many values.
    """
    yaml = _yaml()

    node = compose_yaml(text)
    if node is None:
        return None
    with _told():
        return yaml.constructor.SafeConstructor().construct_document(node)


def compose_yaml(text: str) -> Node | None:
    """Return the nodes of a YAML document with their lines and their scalars as texts; None for an empty one.

    Raises:
        YamlError: as for ``load_yaml``.
    """
    yaml = _yaml()

    with _told():
        node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _Size().of(node)
        return node


def load_table(package: str, name: str) -> Any:
    """Return a table of this package: the file ``name`` in the folder of ``package``. It is not checked."""
    yaml = _yaml()

    text = files(package).joinpath(name).read_text("utf-8")
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_single_data()  # safe_load, with the fast parser


def _yaml() -> Any:
    """Return the parser, which takes 15 ms to import."""
    return import_whole("yaml")


class _Size:
    """Counts the values that a node stands for, each node once, and refuses too many."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # 0 while the node is counted
        self._aliased = False

    def of(self, node: Node) -> int:
        """Return the number of values.

        Raises:
            YamlError: there are too many of them, or the node holds itself.
        """
        known = self._sizes.get(id(node))
        if known is not None:
            self._aliased = True
            if known == 0:
                raise _error(node, "holds itself, by an alias")
            return known
        self._sizes[id(node)] = 0
        size = 1 + sum(map(self.of, _children(node)))
        if self._aliased and size > _MOST_VALUES:
            raise _error(node, f"its aliases (*name) stand for more than {_MOST_VALUES} values; write less of them")
        self._sizes[id(node)] = size
        return size


def _children(node: Node) -> Iterator[Node]:
    for child in node.value if isinstance(node.value, list) else ():
        yield from child if isinstance(child, tuple) else (child,)  # key and value of a mapping


def _error(node: Node, problem: str) -> YamlError:
    return YamlError(problem, node.start_mark.line + 1, node.start_mark.column + 1)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the parser raises about a text into a ``YamlError``."""
    yaml = _yaml()

    try:
        yield
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise YamlError(error.problem or error.context or "unknown", *place) from error
    except RecursionError as error:
        raise YamlError("nested too deep") from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise YamlError(" ".join(str(error).split()) or type(error).__name__) from error  # `!!bool x` is a KeyError
