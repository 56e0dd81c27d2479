"""Every error msprobe raises on purpose, as one tree.

::

    MsprobeException            .code, .error_info; str = prefix of the code + error_info
    ├── ConfigError             a configuration is wrong; .problems has all of them        (code 0)
    │   ├── ScopeConfigError    only the scope is wrong; also a ScopeException             (code 1)
    │   └── ConfigTextError     the file is no JSON or YAML; also a RuntimeError
    ├── InterfaceError          a function was called in the wrong order or form           (code 3)
    ├── FileCheckException      a path cannot be used (codes of its own, see the class)
    ├── ScopeException          scope or list cannot be used (codes of its own)
    ├── ReadError               an input file exists but cannot be understood              (code 0)
    └── NotComparableError      two inputs are readable but cannot be compared             (code 0)

Each message says what is wrong, where, and what to do; it is never empty. The codes are a public contract.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from msprobe.core.interruption import let_through

_VALUE_LENGTH = 80
_ERROR_LENGTH = 500
MEMORY_ERROR = "memory ran out; free some, or give a part of the dumps (a step or rank folder) and fewer processes"


class MsprobeException(Exception):
    """Base of all errors of this package.

    ``code`` is one of the constants below, ``error_info`` the detail without the prefix.
    """

    INVALID_PARAM_ERROR: ClassVar[int] = 0
    OVERFLOW_NUMS_ERROR: ClassVar[int] = 1
    RECURSION_LIMIT_ERROR: ClassVar[int] = 2
    INTERFACE_USAGE_ERROR: ClassVar[int] = 3
    UNSUPPORTED_TYPE_ERROR: ClassVar[int] = 4
    INVALID_CHAR_ERROR: ClassVar[int] = 5

    prefixes: ClassVar[dict[int, str]] = {
        0: "[msprobe] Invalid parameter: ",
        1: "[msprobe] Number of overflows reached: ",
        2: "[msprobe] Nesting too deep: ",
        3: "[msprobe] Invalid interface usage: ",
        4: "[msprobe] Unsupported type: ",
        5: "[msprobe] Illegal characters: ",
    }

    def __init__(self, code: int, error_info: str = "") -> None:
        if code not in self.prefixes:
            raise ValueError(f"{type(self).__name__} has no code {code!r}; known codes: {sorted(self.prefixes)}")
        self.code = code
        self.error_info = error_info.strip() or "no further detail was given; see the log lines above"
        self.args = (code, error_info)

    def __str__(self) -> str:
        return self.prefixes[self.code] + self.error_info


class FileCheckException(MsprobeException):
    """A path cannot be used. Codes: 0 invalid file, 1 permission, 2 soft link, 3 illegal path, 4 open mode, 5 size."""

    INVALID_FILE_ERROR: ClassVar[int] = 0
    FILE_PERMISSION_ERROR: ClassVar[int] = 1
    SOFT_LINK_ERROR: ClassVar[int] = 2
    ILLEGAL_PATH_ERROR: ClassVar[int] = 3
    ILLEGAL_PARAM_ERROR: ClassVar[int] = 4
    FILE_TOO_LARGE_ERROR: ClassVar[int] = 5

    prefixes: ClassVar[dict[int, str]] = {
        0: "[msprobe] Invalid file: ",
        1: "[msprobe] No permission: ",
        2: "[msprobe] Soft link refused: ",
        3: "[msprobe] Illegal path: ",
        4: "[msprobe] Illegal open mode: ",
        5: "[msprobe] File too large: ",
    }


class ScopeException(MsprobeException):
    """Scope or list cannot be used. Codes: 0 invalid list, 1 invalid scope, 2 scope and list contradict each other."""

    INVALID_API_LIST: ClassVar[int] = 0
    INVALID_SCOPE: ClassVar[int] = 1
    ARGUMENT_CONFLICT: ClassVar[int] = 2

    prefixes: ClassVar[dict[int, str]] = {
        0: "[msprobe] Invalid api_list: ",
        1: "[msprobe] Invalid scope: ",
        2: "[msprobe] Scope and api_list conflict: ",
    }


class InterfaceError(MsprobeException):
    """A function of the public interface was called in the wrong order or form."""

    def __init__(self, error_info: str) -> None:
        super().__init__(self.INTERFACE_USAGE_ERROR, error_info)
        self.args = (error_info,)


class ReadError(MsprobeException):
    """An input exists but cannot be read or understood (damaged, not the expected document)."""

    def __init__(self, error_info: str) -> None:
        super().__init__(self.INVALID_PARAM_ERROR, error_info)
        self.args = (error_info,)

    prefixes: ClassVar[dict[int, str]] = {0: "[msprobe] Cannot read: "}


class NotComparableError(MsprobeException):
    """Both inputs are readable, but have no data in common, so a comparison has no result."""

    def __init__(self, error_info: str) -> None:
        super().__init__(self.INVALID_PARAM_ERROR, error_info)
        self.args = (error_info,)

    prefixes: ClassVar[dict[int, str]] = {0: "[msprobe] Not comparable: "}


class _Absent:
    """The type of ``ABSENT``, which is the value of a problem about something missing."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a document.

    Attributes:
        path: the JSON path (``statistics.scope[1]``); empty for the whole document.
        value: the value in the document; ``ABSENT`` when there is none.
        expected: which values are allowed, or what to do.
        suggestion: what the user probably meant.
        argument: True when the value is a function argument and not part of the document.
    """

    path: str
    value: object
    expected: str
    suggestion: str | None = None
    kind: Literal["value", "scope"] = "value"
    argument: bool = False

    def __str__(self) -> str:
        actual = "" if self.value is ABSENT else f"got {json_text(self.value)}; "
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        where = f"{self.path}{' (argument)' if self.argument else ''}: " if self.path else ""
        return f"{where}{actual}{self.expected}{hint}"


def error_text(error: BaseException) -> str:
    """Return class and text of an error on one line of at most 500 characters.

    An exception class of the user whose ``__str__`` raises is named without its text.
    """
    try:
        text = " ".join(str(error).split())
    except Exception as fault:  # noqa: BLE001  (an exception class of the user)
        let_through(fault)
        text = "its text cannot be shown"
    return f"{type(error).__name__}: {text}"[:_ERROR_LENGTH]


def json_text(value: object) -> str:
    """Return the value as JSON on one line of at most 80 characters; what JSON cannot hold as by ``argument_text``."""
    try:
        return _cut(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return argument_text(value)


def argument_text(value: object) -> str:
    """Return the ``repr`` of an argument on one line of at most 80 characters, with its type unless it is built in."""
    text, kind = " ".join(_repr(value).split()), type(value)
    plain = kind.__module__ == "builtins" or kind.__name__ in text
    return _cut(text if plain else f"{text} ({kind.__name__})")


def _cut(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates cannot be printed
    return text if len(text) <= _VALUE_LENGTH else text[: _VALUE_LENGTH - 3] + "..."


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as fault:  # noqa: BLE001  (a class of the user)
        let_through(fault)
        return "a value that cannot be shown"


class ConfigError(MsprobeException):
    """A configuration is wrong. ``problems`` lists every problem, ``source`` names the file or is ``config``."""

    def __init__(self, problems: Sequence[Problem], source: str = "config") -> None:
        if not problems:
            raise ValueError("a ConfigError needs at least one Problem")
        self.problems = tuple(problems)
        self.source = source
        lines = (f"{source}: {problem}" for problem in self.problems)
        super().__init__(self._code(), "\n".join(lines))
        self.args = (self.problems, source)

    def _code(self) -> int:
        return self.INVALID_PARAM_ERROR


class ScopeConfigError(ConfigError, ScopeException):
    """All problems are about ``scope``. It is a ``ScopeException`` as well, with code 1, for callers that catch one."""

    prefixes: ClassVar[dict[int, str]] = ScopeException.prefixes

    def _code(self) -> int:
        return self.INVALID_SCOPE


class ConfigTextError(ConfigError, RuntimeError):
    """The text of a configuration is not JSON or YAML; it is a ``RuntimeError`` as well, which older callers catch."""


def config_error(problems: Sequence[Problem], source: str) -> ConfigError:
    """Return one error for all these problems, of the most specific class that fits."""
    only_scope = all(problem.kind == "scope" for problem in problems)
    return (ScopeConfigError if only_scope and problems else ConfigError)(problems, source)
