"""What a name in construct.json says about its node: kind, phase, and the names of its twins in other phases."""

from __future__ import annotations

from typing import NamedTuple

from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.visualize.node import BETWEEN, ROOT, NodeKind


class NameParts(NamedTuple):
    """A parsed name: ``path`` is the attribute path of a module, "" for calls; ``phase`` "" where there is none."""

    module: bool
    stem: str
    phase: str
    call: int | None
    path: str

    def text(self, phase: str, call: int | None = None) -> str:
        """The name of the same thing in another phase, and in another call where one is given."""
        number = self.call if call is None else call
        if self.module:
            return f"{self.stem}.{phase}" if number is None else f"{self.stem}.{phase}.{number}"
        return f"{self.stem}.{number}.{phase}"


class NameCache(dict[str, NameParts]):
    """Parses each name once; one object serves all graphs of a job, which share most names."""

    def __missing__(self, name: str) -> NameParts:
        found = self[name] = _parts(name)
        return found

    def kind(self, name: str) -> NodeKind:
        """Module, call or collection. What is no name of a call (optimizer, a name of the user) counts as module."""
        if name.startswith(BETWEEN):
            return NodeKind.COLLECTION
        parts = self[name]
        return NodeKind.API if parts.phase and not parts.module else NodeKind.MODULE

    def twin(self, name: str, phase: str) -> str:
        """The same call in another phase; a text that is no entry name stays as it is."""
        parts = self[name]
        return parts.text(phase) if parts.phase else name


def _parts(name: str) -> NameParts:
    try:
        stem, phase, call = split_entry(name)
    except NameSyntaxError:
        return NameParts(False, name, "", None, "")
    prefix, _, rest = stem.partition(".")
    module = prefix in MODULE_PREFIXES
    return NameParts(module, stem, phase, call, rest.rpartition(".")[0] if module else "")


def is_call_of_module(name: str) -> bool:
    """True for names of module calls, False for APIs, the optimizer and the root."""
    return name != ROOT and name.partition(".")[0] in MODULE_PREFIXES
