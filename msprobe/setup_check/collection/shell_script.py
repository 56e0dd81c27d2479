"""Reads the arguments of the training that a shell script starts, without running it.

    LR=1e-4
    MODEL_ARGS="--num-layers 4 --lr $LR"
    torchrun --nproc_per_node 8 train.py $MODEL_ARGS --seed 1     ->  nproc_per_node 8, num-layers 4, lr 1e-4, seed 1

Launchers that are known: ``python``, ``torchrun``, ``msrun``, ``mpirun``, ``deepspeed``, ``accelerate``, ``srun``,
``ray``. Variables are replaced by what the script, or the environment, assigns to them; one that nobody assigns stays
as it is. Values with ``$(command)`` stay as they are: nothing is executed. Variables whose names are secrets are never
replaced by what they hold.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msprobe.setup_check.collection.environment import HIDDEN, is_secret

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_KEYWORD = re.compile(r"(?:(export)|declare(?:\s+-(\w+))*|local|readonly)\s+")
_BLOCK = re.compile(r"^(?:(?:then|else|do)\s+)+")
_NAMES = re.compile(r"[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)*")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?-)([^}]*))?\}|([A-Za-z_]\w*))")
_ARRAY = re.compile(r'"?\$\{([A-Za-z_]\w*)\[[@*]\]\}"?')
_PROGRAM = re.compile(
    r"(?:.*/)?(?:python[\d.]*|torchrun|msrun|mpirun|mpiexec|horovodrun|deepspeed|accelerate|colossalai|srun|ray|bash|sh"
    r"|llamafactory-cli|swift|axolotl|xtuner)"
)
_ENDS = {"|", "||", "&&", "&", ";", ")", "then", "fi", "done"}
_SEPARATOR = re.compile(r"\s*(?:;|&&|\|\|)\s*")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|\$?\([^()]*\)|`[^`]*`", re.DOTALL)
"""What a separator inside it does not end: quotes, the parentheses of an array or a command."""
_REDIRECTION = re.compile(r"\d*&?>>?|<")
_NUMBER = re.compile(r"-(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_OF_PYTHON = {"m", "u", "O", "W"}
_DEEPEST = 20


class Script(NamedTuple):
    """What a script gives to the training that it starts.

    Attributes:
        arguments: of every training command, by name without dashes; a flag is True.
        exported: environment variables; those whose values are known only when the script runs are left out.
    """

    arguments: dict[str, str | bool | list[str]]
    exported: dict[str, str]


def read_script(text: str, environment: Mapping[str, str] | None = None) -> Script:
    """Return the arguments and variables that a script gives to its training commands.

    Args:
        text: the script.
        environment: what variables are if the script does not assign them; that of this process without it.
    """
    given = os.environ if environment is None else environment
    known = {name: HIDDEN if is_secret(name) else value for name, value in given.items()}
    arguments: dict[str, str | bool | list[str]] = {}
    exported: dict[str, str] = {}
    for line in itertools.chain.from_iterable(map(_statements, _logical_lines(text))):
        names = _assign(line, known)
        if names is not None:
            exported.update({name: known[name] for name in names if name in known})
            continue
        for before, words in _commands(line, known):
            arguments.update(arguments_of(words))
            exported.update({name: value for name, _, value in map(_parts, before) if name})
    return Script(arguments, {name: value for name, value in exported.items() if not {"$", "`"} & set(value)})


def _assign(line: str, known: dict[str, str]) -> list[str] | None:
    """Note the assignments of a line, and return the names that it exports; None for another command.

    An assignment before a command is for that command alone, and is not noted.
    """
    line = _BLOCK.sub("", line)
    keyword = _KEYWORD.match(line)
    rest = line[keyword.end() :] if keyword else line
    exports = keyword is not None and (keyword[1] is not None or "x" in (keyword[2] or ""))
    if exports and _NAMES.fullmatch(rest):
        return rest.split()
    match = _ASSIGNMENT.fullmatch(rest)
    if match is None or (_is_command_behind(match[3]) and not exports):
        return None
    parts = _words_with_quotes(rest) if _is_command_behind(match[3]) else [rest]
    names = []
    for name, added, text in (part.groups() for part in map(_ASSIGNMENT.fullmatch, parts) if part):
        value = HIDDEN if is_secret(name) else _value(text, known)
        known[name] = f"{known.get(name, '')} {value}".strip() if added else value
        names.append(name)
    return names if exports else []


def _words_with_quotes(text: str) -> list[str]:
    """Split at spaces that stand outside of quotes."""
    covered = _QUOTED.sub(lambda match: "x" * len(match[0]), text)
    return [text[part.start() : part.end()] for part in re.finditer(r"\S+", covered)]


def _statements(line: str) -> Iterator[str]:
    """Yield the commands of a line that stand one after another (``;``, ``&&``, ``||``)."""
    covered = _QUOTED.sub(lambda match: "x" * len(match[0]), line)
    if "#" in covered and (comment := re.search(r"(?:^|\s)#", covered)):
        line, covered = line[: comment.start()], covered[: comment.start()]
    begin = 0
    for separator in _SEPARATOR.finditer(covered):
        yield line[begin : separator.start()].strip()
        begin = separator.end()
    yield line[begin:].strip()


def _parts(word: str) -> tuple[str, str, str]:
    """Return name, ``=`` and value of an assignment; an empty name for another word."""
    match = _ASSIGNMENT.fullmatch(word)
    return (match[1], "=", match[3]) if match else ("", "", "")


def arguments_of(words: list[str]) -> dict[str, str | bool | list[str]]:
    """Return options of a command line by name: ``--lr 1e-5``, ``--lr=1e-5``, ``--betas 0.9 0.95``, ``key.sub=value``.

    Words behind an option are its values, up to the next option; the first one of ``train.py`` and ``-m module`` ends
    the options of the launcher.
    """
    found: dict[str, str | bool | list[str]] = {}
    name, values = "", list[str]()

    def keep() -> None:
        if name and name not in _OF_PYTHON:
            found[name] = True if not values else values[0] if len(values) == 1 else list(values)

    for word in words:
        is_option = word.startswith("-") and not _NUMBER.fullmatch(word) and word.strip("-")
        if is_option:
            keep()
            name, equals, value = word.lstrip("-").partition("=")
            values = [value] if equals else []
        elif "=" in word and re.fullmatch(r"\+{0,2}~?[\w./@-]+", word.partition("=")[0]):  # Hydra
            keep()
            key, _, value = word.lstrip("+").partition("=")
            name, values = key, [value]
        elif word.endswith(".py"):
            keep()
            name, values = "", []
        elif name and not (values and word.startswith("$")):  # an unknown variable behind a value may be empty
            values.append(word)
    keep()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield commands: lines joined at a backslash, inside quotes and inside parentheses of an array."""
    pending = ""
    for raw in text.splitlines():
        line = raw.rstrip()
        pending = f"{pending}{line}" if not pending else f"{pending}\n{line}"
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        stripped = pending.strip()
        if _is_open(stripped):
            continue
        pending = ""
        if stripped and not stripped.startswith("#"):
            yield stripped.replace("\\\n", " ")
    yield from (line.strip() for line in pending.splitlines() if line.strip())  # a quote that nothing closes


def _is_open(text: str) -> bool:
    """Return whether a quote or the parenthesis of an array is not closed yet."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return re.match(r"[A-Za-z_]\w*\+?=\(", text) is not None and not text.rstrip().endswith(")")


def _is_command_behind(value: str) -> bool:
    """Return whether ``A=1 python train.py`` follows: an assignment for one command."""
    try:
        words = shlex.split(value, comments=True)
    except ValueError:
        return False
    return not value.startswith("(") and len(words) > 1


def _value(text: str, known: Mapping[str, str]) -> str:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
        return _replaced(" ".join(_split(text)), known)
    quoted = text.startswith("'")
    plain = " ".join(_split(text)) if text[:1] in {'"', "'"} else (_split(text) or [""])[0]
    return plain if quoted else _replaced(plain, known)


def _replaced(text: str, known: Mapping[str, str]) -> str:
    def one(match: re.Match[str]) -> str:
        name = match[1] or match[4]
        if known.get(name):
            return known[name]
        return match[3] if match[2] else known.get(name, match[0])

    for _ in range(_DEEPEST):
        after = _VARIABLE.sub(one, _ARRAY.sub(r"$\1", text))
        if after == text or len(after) > 1 << 20:
            break
        text = after
    return text


def _commands(line: str, known: Mapping[str, str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words before and behind each program that a line starts, with variables replaced."""
    words: list[str] = []
    skip = False
    for word in [*_split(_replaced(line, known)), ";"]:
        if skip:
            skip = False
        elif _REDIRECTION.match(word):
            skip = _REDIRECTION.fullmatch(word) is not None
        elif word in _ENDS or word.endswith(";"):
            words += [word[:-1]] if len(word) > 1 and word.endswith(";") else []
            begin = next((at for at, one in enumerate(words) if _PROGRAM.fullmatch(one)), None)
            if begin is not None:
                yield words[:begin], words[begin + 1 :]
            words = []
        else:
            words.append(word)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an apostrophe in a value
        return text.split()
