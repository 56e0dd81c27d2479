"""Names derived from the name of an entry: the same call in another phase, and a module as messages show it."""

from __future__ import annotations

from msprobe.compare.pairs import stem_of
from msprobe.core.naming import NameSyntaxError, parse_entry
from msprobe.core.naming.model import MODULE_PREFIXES


def in_phase(name: str, phase: str) -> str:
    """The name of the same call in another phase; a text that is no entry name stays as it is."""
    try:
        parsed = parse_entry(name)
    except NameSyntaxError:
        return name
    call = parsed.call or 0
    is_module = name.partition(".")[0] in MODULE_PREFIXES
    return f"{parsed.stem}.{phase}.{call}" if is_module else f"{parsed.stem}.{call}.{phase}"


def module_text(name: str) -> str:
    """Path and class of a module entry, without prefix and call; other parents (optimizer) stay as they are."""
    stem = stem_of(name)
    prefix, dot, rest = stem.partition(".")
    return rest if dot and prefix in MODULE_PREFIXES else stem
