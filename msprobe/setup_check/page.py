"""The result as one HTML page that needs no other file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from msprobe.core.store.safe_files import write_atomic
from msprobe.setup_check.comparison import SetupComparison


def write_page(comparison: SetupComparison, names: tuple[str, str], path: Path) -> None:
    """Write the page; every text of the set-ups is escaped.

    Raises:
        OSError: it cannot be written.
    """
    from jinja2 import Environment

    source = files(__package__).joinpath("page.html.j2").read_text("utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)
    text = template.render(comparison=comparison, first=names[0], second=names[1])
    write_atomic(path, [text.encode("utf-8", "replace")])
