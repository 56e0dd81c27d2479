"""A short card that notebooks show for an object (``_repr_html_``)."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = "border:1px solid #8888;border-radius:4px;padding:6px 10px;display:inline-block;font-family:sans-serif"
_COLOURS = {"good": "#1a7f37", "bad": "#cf222e", "unsure": "#9a6700"}


def html_card(title: str, mood: str, rows: Iterable[tuple[str, str]], text: str = "") -> str:
    """Return HTML without scripts, in which everything is escaped.

    Args:
        title: the first line.
        mood: its colour: ``good``, ``bad`` or ``unsure``.
        rows: names and values below it.
        text: what is shown as it is printed, below the rows.
    """
    colour = _COLOURS.get(mood, "inherit")
    cells = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    table = f"<table>{cells}</table>" if cells else ""
    printed = f'<pre style="white-space:pre-wrap">{escape(text)}</pre>' if text else ""
    return f'<div style="{_STYLE}"><b style="color:{colour}">{escape(title)}</b>{table}{printed}</div>'
