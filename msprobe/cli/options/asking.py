"""Commands that need an option only where others do not stand: what is missing is said as click says it.

So the nearest right line (``nearest_line``) is found for it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

Missing = tuple[str, str]
"""The keyword of an option or argument, and what else may be given in its place; "" for nothing."""


class Asking(click.Command):
    """A command whose values, by their keywords, say which option or argument is missing."""

    def __init__(self, *args: Any, missing: Callable[[Mapping[str, Any]], Missing | None], **more: Any) -> None:
        super().__init__(*args, **more)
        self._missing = missing

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and raise MissingParameter for what is missing."""
        rest = super().parse_args(ctx, args)
        found = self._missing(ctx.params)
        if found is not None:
            raise missing_parameter(ctx, *found)
        return rest


def missing_parameter(context: click.Context, keyword: str, otherwise: str = "") -> click.MissingParameter:
    """Return the error for an option or argument of the command that is missing."""
    param = next(each for each in context.command.params if each.name == keyword)
    return click.MissingParameter(otherwise or None, ctx=context, param=param)
