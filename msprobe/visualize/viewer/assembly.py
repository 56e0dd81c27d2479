"""The document of the front end, with its scripts beside it (served) or inside it (offline page).

Modules find each other by name through an import map, so that the same files work from a server and as data
addresses. The content policy blocks every other address: the page uses no network even where the machine has one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files

_LIBRARIES = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/preact-hooks.mjs",
    "htm": "vendor/htm.mjs",
    "uplot": "vendor/uplot.mjs",
    "dagre": "vendor/dagre.mjs",
}
_STYLES = ("vendor/uplot.css", "app/app.css")
_START = 'import "msprobe/main.js";'


@cache
def asset(name: str) -> bytes:
    """Return a file of the front end by its path below ``assets``.

    Raises:
        KeyError: the front end has no such file.
    """
    if name not in asset_names():
        raise KeyError(name)
    return files(__package__).joinpath(f"assets/{name}").read_bytes()


@cache
def asset_names() -> frozenset[str]:
    """Return the paths of all scripts and style sheets: the pinned libraries and the modules of ``app``."""
    app = (entry.name for entry in files(__package__).joinpath("assets/app").iterdir())
    return frozenset({*_LIBRARIES.values(), *_STYLES, *(f"app/{name}" for name in app if name.endswith(".js"))})


def served_page() -> tuple[str, str]:
    """Return the document that loads its parts from the server, and its content policy."""
    styles = "".join(f'<link rel="stylesheet" href="{name}">' for name in _STYLES)
    imports = _import_map({name: f"./{path}" for name, path in _modules().items()})
    allowed = " ".join(_digest(text) for text in (imports, _START))
    policy = f"default-src 'none'; script-src 'self' {allowed}; style-src 'self'; connect-src 'self'; img-src data:"
    return _document("msprobe view", styles, imports), f"{policy}; base-uri 'none'; form-action 'none'"


def offline_page(title: str) -> tuple[bytes, bytes]:
    """Return what comes before and after the data in a page that needs no other file."""
    styles = "".join(f"<style>{asset(name).decode()}</style>" for name in _STYLES)
    imports = _import_map({name: _data_address(path) for name, path in _modules().items()})
    allowed = " ".join(_digest(text) for text in (imports, _START))
    policy = f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    before, after = _document(title, meta + styles, imports, "<!--data-->").split("<!--data-->")
    return before.encode("utf-8", "backslashreplace"), after.encode()


def _document(title: str, head: str, imports: str, data: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width">{head}'
        f'<script type="importmap">{imports}</script></head><body><div id="app">'
        f'<p class="note">Loading; this page needs a browser with JavaScript modules.</p></div>{data}'
        f'<script type="module">{_START}</script></body></html>'
    )


def _modules() -> dict[str, str]:
    own = {f"msprobe/{name.removeprefix('app/')}": name for name in sorted(asset_names()) if name.startswith("app/")}
    return {**_LIBRARIES, **{name: path for name, path in own.items() if path.endswith(".js")}}


def _import_map(imports: dict[str, str]) -> str:
    return json.dumps({"imports": imports})


def _data_address(name: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(asset(name)).decode()}"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
