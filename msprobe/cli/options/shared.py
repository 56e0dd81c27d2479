"""Options that several commands have: one name for one notion, declared once.

A command takes one with ``@shared("output_path", type=OutputFolder(), help="Folder for the result tables.")`` and gets
it as the keyword ``output_path``. Older spellings work and are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Answer = TypeVar("Answer")


class Notion(NamedTuple):
    """What an option means in every command: its names, older spellings, and parameters of ``click.option``."""

    names: tuple[str, ...]
    older: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = {}


def joined(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return one list of an option that is given once for each part of it (``--step 0 --step 2``)."""
    return ",".join(values) if values else None


_PATH = {"type": click.Path()}
_NUMBERS = {"metavar": "0-2,5", "multiple": True, "callback": joined}
_SWITCH = {"is_flag": True}
_SHOWN = {"show_default": True}

SHARED: Mapping[str, Notion] = {
    "target_path": Notion(("-tp", "--target_path"), (), {**_PATH, "help": "Dump of the run under test."}),
    "golden_path": Notion(("-gp", "--golden_path"), (), {**_PATH, "help": "Dump of the good run."}),
    "input_path": Notion(("-i", "--input_path"), ("--input", "--input_dir", "--data", "--dump_data"), _PATH),
    "output_path": Notion(("-o", "--output_path"), ("--output", "--output_dir", "--db"), _SHOWN),
    "config": Notion(("-c", "--config"), ("-config", "--config_path"), _PATH),
    "framework": Notion(("-f", "--framework")),
    "model": Notion(("-m", "--model")),
    "step": Notion(("--step",), (), _NUMBERS),
    "rank": Notion(("--rank",), (), _NUMBERS),
    "run": Notion(
        ("--run",),
        (),
        {"metavar": "N|all", "help": "Which run to read of a folder that holds several, 1 for the oldest."},
    ),
    "target_parallel": Notion(
        ("--target-parallel",),
        (),
        {
            "metavar": "tp=N,pp=N,cp=N,dp=N,ep=N,vpp=N,zero=N",
            "help": "Over how many ranks the target spreads a model (tensor, pipeline, context, data and expert "
            "parallelism, chunks of a stage, and data-parallel ranks that share parameters).",
        },
    ),
    "accept": Notion(("--accept",), (), {**_PATH, "metavar": "FILE"}),
    "executor": Notion(("--executor",), (), {**_SHOWN, "metavar": "WHERE", "default": "auto"}),
    "fail_on": Notion(("--fail-on",), (), {**_SHOWN, "default": "never", "help": "When to end with exit status 1."}),
    "policy": Notion(
        ("--policy",), (), {**_SHOWN, "type": click.Choice(["default", "reference"]), "default": "default"}
    ),
    "html": Notion(("--html",), (), {"metavar": "FILE"}),
    "junit": Notion(("--junit",), (), {"metavar": "FILE"}),
    "json_path": Notion(
        ("--json",), (), {"metavar": "FILE|-", "help": "Write the result as JSON; - prints it, and only it."}
    ),
    "log_items": Notion(
        ("-tensor_log", "--is_print_compare_log"), (), {**_SWITCH, "help": "Log a line per compared value."}
    ),
}
"""By the keyword that a command gets."""


class SharedOption(click.Option):
    """An option with older spellings, which help and messages leave out."""

    def __init__(self, *args: Any, older: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.older = older

    @property
    def shown(self) -> list[str]:
        """Return the names of today."""
        return [name for name in self.opts if name not in self.older]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the line of the help."""
        return self._with_shown(lambda: super(SharedOption, self).get_help_record(ctx))

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the names for messages."""
        return self._with_shown(lambda: super(SharedOption, self).get_error_hint(ctx))

    def _with_shown(self, function: Callable[[], Answer]) -> Answer:
        every, self.opts = self.opts, self.shown
        try:
            return function()
        finally:
            self.opts = every


def shared(
    keyword: str, *, short: bool = True, older: tuple[str, ...] = (), **more: Any
) -> Callable[[Command], Command]:
    """Return the option of a notion of ``SHARED``.

    Args:
        keyword: the notion.
        short: whether the command has the one-letter name too; False where it means something else there.
        older: spellings that this command alone had.
        more: parameters of ``click.option`` for this command.
    """
    notion = SHARED[keyword]
    names = [name for name in notion.names if short or name.startswith("--")]
    parameters = {**notion.parameters, **more}
    older = (*notion.older, *older)
    return click.option(*names, *older, keyword, cls=SharedOption, older=older, **parameters)
