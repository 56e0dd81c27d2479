"""Options that commands for single calls have in common."""

from __future__ import annotations

import click

API_INFO = click.option(
    "-api_info", "--api_info_file", "--api-info", "api_info", required=True,
    help="The dump.json of level L1 or mix, or a folder with one.",
)  # fmt: skip
TIMEOUT = click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, show_default=True, metavar="SECONDS",
    help="What one call may take.",
)  # fmt: skip
