"""Inputs of commands as bare paths: ``msprobe compare TARGET GOLDEN`` is ``msprobe compare -tp TARGET -gp GOLDEN``.

A command says with ``@inputs(target_path="TARGET", golden_path="GOLDEN")``, above its options, which of them bare
paths stand for, in which order, and how the help calls them. ``SeveralWords`` is for commands that also have options
with several words: it says where such a list ends and paths go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, ClassVar, TypeVar, cast

import click

from msprobe.cli.options.help_text import normalized

Command = TypeVar("Command", bound=Callable[..., Any])
BARE_PATHS = "msprobe.bare_paths"
"""Where ``click.Context.meta`` has the bare paths of a command line."""


class UnexpectedPath(click.UsageError):
    """There are more bare paths than the command has inputs; ``word`` is the first that is too much."""

    def __init__(self, word: str, paths: InputPaths, context: click.Context) -> None:
        super().__init__(f"unexpected extra argument {word!r}, the paths are: {paths.metavar}", context)
        self.word = word


class InputPaths(click.Argument):
    """Bare paths that stand for options, in their order; an option that is given by its name takes none of them."""

    def __init__(self, names: list[str], options: tuple[click.Option, ...]) -> None:
        shown = " ".join(f"{each.metavar}" if each.required else f"[{each.metavar}]" for each in options)
        super().__init__(names, nargs=-1, is_eager=True, expose_value=False, required=False, metavar=shown)
        self.options = options

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Give each path to the first option that has no value yet.

        Raises:
            UnexpectedPath: every option has one.
        """
        words = opts.get(self.name or "")
        paths = ctx.meta[BARE_PATHS] = tuple(words) if isinstance(words, (tuple, list)) else ()
        missing = [option.name or "" for option in self.options if option.name not in opts]
        cast("MutableMapping[str, Any]", opts).update(zip(missing, paths, strict=False))
        if len(paths) > len(missing) and not ctx.resilient_parsing:
            raise UnexpectedPath(paths[len(missing)], self, ctx)
        return super().handle_parse_result(ctx, opts, args)


def inputs(**metavars: str) -> Callable[[Command], Command]:
    """Return a decorator that lets options of a command be given as bare paths.

    Args:
        metavars: by the keyword of an option, how the help calls it; in the order of the paths.
    """

    def decorate(function: Command) -> Command:
        options = {param.name: param for param in function.__click_params__}  # type: ignore[attr-defined]
        chosen = tuple(options[name] for name in metavars)
        for option in chosen:
            option.metavar = metavars[option.name]
        return click.argument("bare_paths", cls=InputPaths, options=chosen)(function)

    return decorate


class SeveralWords(click.Command):
    """A command with options that take several words: ``--tp 2 4`` is read as ``--tp 2 --tp 4``.

    ``belongs`` says of each such option which further words are its own; the first other one may be a path.
    """

    belongs: ClassVar[Mapping[str, Callable[[str], bool]]] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the name of such an option before each of its words, then parse."""
        repeated: list[str] = []
        current, has_value = "", False
        for place, word in enumerate(args):
            if word == "--":
                repeated += args[place:]
                break
            if word.startswith("-"):
                name, equals, _ = word.partition("=")
                current, has_value = normalized(name), bool(equals)
            elif current in self.belongs and has_value:
                if self.belongs[current](word):
                    repeated.append(current)
                else:
                    current = ""
            else:
                has_value = True
            repeated.append(word)
        return super().parse_args(ctx, repeated)
