"""The nearest right command line for one with an unknown or a missing option or value, or with a path too much.

It is found by changing one thing at a time until the command understands the line, so what is shown is understood.
"""

from __future__ import annotations

import difflib
import itertools
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence

import click

from msprobe.cli.options.help_text import normalized
from msprobe.cli.options.inputs import BARE_PATHS, InputPaths, UnexpectedPath
from msprobe.cli.options.shared import SHARED, SharedOption
from msprobe.core.errors import MsprobeException

_MOST_CHANGES = 8
_LONGEST = 300
_INPUTS = ("input_path", "target_path", "golden_path")
_ANY_PATH = {"path", "file", "folder", "dir", "directory", "dump", "run"}
_HELP = {"-h", "--help"}


def nearest_line(error: click.UsageError, words: Sequence[str]) -> str:
    """Return the command line that ``words`` were meant to be, quoted for a shell; "" where none is near.

    Args:
        error: what the command says of them.
        words: the command line behind the name of the program.
    """
    context = error.ctx
    if context is None or context.parent is None or context.info_name not in words or _HELP & set(words):
        return ""
    start = words.index(context.info_name) + 1
    tail = list(words[start:])
    problem: click.ClickException | None = error
    for _ in range(_MOST_CHANGES):
        changed = _changed(problem, tail) if problem is not None else tail
        if problem is None or changed is None:
            break
        tail = changed
        problem = _problem(context, tail)
    line = shlex.join(["msprobe", *words[:start], *tail])
    return line if problem is None and len(line) <= _LONGEST and line.isprintable() else ""


def unknown_word(error: click.NoSuchOption, words: Sequence[str]) -> str:
    """Return the word that holds the unknown option: of an unknown ``-xyz`` click names the ``-x``."""
    return next((word for word in words if normalized(word).startswith(error.option_name)), error.option_name)


def _problem(context: click.Context, words: list[str]) -> click.ClickException | None:
    """Return what the command says of other words; nothing is run."""
    try:
        context.command.make_context(context.info_name, list(words), parent=context.parent, help_option_names=[])
    except click.ClickException as error:
        return error
    except MsprobeException as error:
        return click.ClickException(str(error))
    return None


def _changed(error: click.ClickException, words: list[str]) -> list[str] | None:
    """Return the words without what ``error`` says; None where nothing is to be done."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return None
    if isinstance(error, click.NoSuchOption):
        return _without_unknown(unknown_word(error, words), words, context)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _with_missing(error.param, words, context)
    if isinstance(error, click.BadOptionUsage):
        return _with_values(error.option_name, words, context)
    if isinstance(error, UnexpectedPath):
        return _as_output(error.word, words, context)
    return _as_name(words, context) if type(error) is click.UsageError else None


def _options(context: click.Context) -> Iterator[click.Option]:
    return (param for param in context.command.params if isinstance(param, click.Option) and not param.hidden)


def _without_unknown(word: str, words: list[str], context: click.Context) -> list[str] | None:
    """Return the words with the option that was meant, or with a bare path, in place of an unknown option."""
    if word not in words:
        return None
    place = words.index(word)
    before, after = words[:place], words[place + 1 :]
    name, equals, value = word.partition("=")
    takes = next((param.name for param in context.command.params if isinstance(param, click.Argument)), None)
    notion = next((key for key, each in SHARED.items() if normalized(name) in (*each.names, *each.older)), "")
    if takes is not None and (notion in _INPUTS or notion == takes):
        path = [value] if equals else after[:1]
        after = after if equals else after[1:]
        return [*before, *after, *path] if notion == "golden_path" else [*path, *before, *after]
    close = near(normalized(name), [flag for option in _options(context) for flag in option.opts])
    if close:
        return [*before, f"{close[0]}{equals}{value}", *after]
    if (equals or after) and _is_input(_bare(normalized(name)), context):
        return [*before, *([value] if equals else []), *after]
    is_value = not equals and after and not after[0].startswith("-") and not os.path.exists(after[0])
    return [*before, *after[1 if is_value else 0 :]]


def _is_input(name: str, context: click.Context) -> bool:
    """Return whether a name is what the help calls an input of the command, or any path."""
    paths = next((each for each in context.command.params if isinstance(each, InputPaths)), None)
    if paths is None:
        return name in _ANY_PATH and any(isinstance(each, click.Argument) for each in context.command.params)
    return name in {*_ANY_PATH, *(f"{each.metavar}".lower() for each in paths.options)}


def _with_values(name: str, words: list[str], context: click.Context) -> list[str] | None:
    """Return the words with the values that an option at their end lacks, or without one that a switch has."""
    option = next((each for each in _options(context) if name in map(normalized, each.opts)), None)
    places = [place for place, word in enumerate(words) if normalized(word.partition("=")[0]) == name]
    if option is None or not places:
        return None
    if option.is_flag:
        return [*words[: places[-1]], words[places[-1]].partition("=")[0], *words[places[-1] + 1 :]]
    return [*words, *_metavars(option)[len(words) - places[-1] - 1 :]]


def near(name: str, flags: Iterable[str]) -> list[str]:
    """Return the flags that ``name`` may have been meant to be, the nearest first.

    The dashes of a long one count for nothing.
    """
    by_name = {_bare(flag): flag for flag in flags}
    longer = [flag for flag in by_name.values() if flag.startswith(f"{name}_")]
    return longer or [by_name[each] for each in difflib.get_close_matches(_bare(name), by_name)]


def _bare(flag: str) -> str:
    return flag.removeprefix("--")


def _with_missing(param: click.Parameter, words: list[str], context: click.Context) -> list[str]:
    """Return the words with a missing option or path; the metavar stands for what the user has to fill in."""
    paths = next((each for each in context.command.params if isinstance(each, InputPaths)), None)
    inputs = () if paths is None else paths.options
    metavar = _metavars(param)[0]
    if isinstance(param, click.Argument):
        of_program = not context.allow_interspersed_args  # its command line comes behind the options
        place, count = (len(words), 0) if of_program else _behind_arguments(param, words, context)
        return [*words[:place], *_metavars(param)[count:], *words[place:]]
    if not context.allow_interspersed_args:  # what follows belongs to a program
        return [_name(param), metavar, *words]
    if param not in inputs:
        return [*words, _name(param), metavar]
    if moved := _behind_paths(words, context):
        return moved
    if any(word.partition("=")[0] in option.opts for option in inputs for word in words):
        return [*words, _name(param), metavar]
    bare = context.meta.get(BARE_PATHS, ())
    place = len(words) - words[::-1].index(bare[-1]) if bare and bare[-1] in words else 0
    return [*words[:place], metavar, *words[place:]]


def _behind_arguments(param: click.Argument, words: list[str], context: click.Context) -> tuple[int, int]:
    """Return the place of an argument: behind those of the command that stand before it, and behind its own words,
    where it takes several; and how many it has."""
    given, _, _ = context.command.make_parser(context).parse_args(list(words))
    arguments = [each.name for each in context.command.params if isinstance(each, click.Argument)]
    own = given.get(param.name)
    own = own if isinstance(own, tuple) else ()
    before = [*(given.get(name) for name in arguments[: arguments.index(param.name)]), *own]
    last = next((value for value in reversed(before) if isinstance(value, str) and value in words), None)
    return 0 if last is None else len(words) - words[::-1].index(last), len(own)


def _name(option: click.Parameter) -> str:
    return option.shown[0] if isinstance(option, SharedOption) else option.opts[0]


def _metavars(param: click.Parameter) -> list[str]:
    """Return what the help calls the values of a parameter, each as a word."""
    if isinstance(param.type, click.Choice):
        return [str(param.type.choices[0])]
    if isinstance(param.type, (type(click.INT), type(click.FLOAT))):
        return ["1"]
    name = param.name if isinstance(param, click.Argument) else param.type.name
    return (param.metavar or f"{name}".upper()).strip("[].").split("|")[0].split()


def _behind_paths(words: list[str], context: click.Context) -> list[str] | None:
    """Return the words with an option at the end that has taken a folder for its file, which it need not have."""
    optional = {flag for option in _options(context) if (option.metavar or "").startswith("[") for flag in option.opts}
    for place, (word, following) in enumerate(itertools.pairwise(words)):
        if normalized(word) in optional and os.path.isdir(following):
            return [*words[:place], *words[place + 1 :], word]
    return None


def _as_output(word: str, words: list[str], context: click.Context) -> list[str] | None:
    """Return the words without a path too much, or with ``-o`` before it where the place of the result is missing."""
    if word not in words:
        return None
    output = next((each for each in _options(context) if each.name == "output_path" and each.required), None)
    is_output = output is not None and not any(each.partition("=")[0] in output.opts for each in words)
    place = len(words) - 1 - words[::-1].index(word)
    return [*words[:place], *([_name(output), word] if output is not None and is_output else []), *words[place + 1 :]]


def _as_name(words: list[str], context: click.Context) -> list[str] | None:
    """Return the words with a bare one too much behind the option that takes a name, or without it."""
    given, extra, _ = context.command.make_parser(context).parse_args(list(words))
    if not extra or extra[0] not in words:
        return None
    named = next((each for each in _options(context) if each.metavar == "NAME" and each.name not in given), None)
    place = len(words) - 1 - words[::-1].index(extra[0])
    return [*words[:place], *([named.opts[0]] if named else []), *words[place + (0 if named else 1) :]]
