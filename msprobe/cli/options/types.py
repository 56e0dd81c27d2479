"""Types of options that several commands share: the name of a framework, and the place of results."""

import os
from typing import Any

import click


class FrameworkName(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """The name of a framework in the table of support. The table is imported when a command runs, not before."""

    name = "framework"

    def get_metavar(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the names for the help text."""
        return _choice().get_metavar(*args, **kwargs)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or fail with the names that exist."""
        return _choice().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        """Return the names that begin with ``incomplete``."""
        return _choice().shell_complete(ctx, param, incomplete)


def _choice() -> "click.Choice[str]":
    from msprobe.core.backend.support import FRAMEWORKS

    return click.Choice(FRAMEWORKS)


class PublishedFramework(FrameworkName):
    """The framework before the command, as the published tool has it; a usual name loads no table."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or fail with the names that exist."""
        return value if value in ("pytorch", "mindspore") else super().convert(value, param, ctx)


class OutputFolder(click.Path):
    """A folder for results; it may be missing, but is no file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail where a file is in the way."""
        if os.path.lexists(value) and not os.path.isdir(value):
            self.fail(f"{value} is a file; give a folder for the result", param, ctx)
        return super().convert(value, param, ctx)


class OutputFile(click.Path):
    """A file for a result; it may be missing, but is no folder, and no file is in the place of its folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail where a folder is there, or none can be made for it."""
        if os.path.isdir(value):
            self.fail(f"{value} is a folder; give the name of a file for the result", param, ctx)
        if os.path.exists(value) and not os.path.isfile(value):
            self.fail(f"{value} is a device; give the name of a file for the result", param, ctx)
        folder = os.path.dirname(value)
        if os.path.isfile(folder):
            self.fail(f"{folder} is a file and no folder; give another file for the result", param, ctx)
        return super().convert(value, param, ctx)
