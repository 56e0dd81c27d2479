"""The grammar of entry names: one parser, one formatter; no other package splits names at dots."""

from msprobe.core.naming.names import ApiName, DebugName, EntryName, ModuleName, Phase, Slot, TensorName
from msprobe.core.naming.parser import NameSyntaxError, parse_entry, parse_tensor, split_entry

__all__ = [
    "ApiName",
    "DebugName",
    "EntryName",
    "ModuleName",
    "NameSyntaxError",
    "Phase",
    "Slot",
    "TensorName",
    "parse_entry",
    "parse_tensor",
    "split_entry",
]
