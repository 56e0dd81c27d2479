"""The content of a mapping file, read and checked once, as plain values: they travel to other processes and machines,
where the file need not be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.compare.alignment.api_mapping import api_mapping
from msprobe.compare.alignment.cell_mapping import cell_mapping
from msprobe.compare.alignment.data_mapping import data_names
from msprobe.compare.alignment.layer_mapping import layer_mapping
from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.alignment.options import MAPPINGS, MappingOptions, mapping_options
from msprobe.compare.locations import is_path

_CHECKS: dict[str, Callable[[Marked], object]] = {
    "cell_mapping": cell_mapping,
    "api_mapping": api_mapping,
    "data_mapping": data_names,
    "layer_mapping": layer_mapping,
}


def read_mapping_options(keywords: Mapping[str, Any]) -> MappingOptions:
    """Return the options of some keywords (see ``mapping_options``), whose mappings may be files.

    Raises:
        MsprobeException: a keyword is unknown, or no mapping can have such a value.
        ReadError: a mapping file cannot be read, or contradicts itself; names line and key.
    """
    given = {name: keywords[name] for name in MAPPINGS if _has_content(keywords.get(name))}
    files = {name: str(value) for name, value in given.items() if is_path(value)}
    return mapping_options({**keywords, **{name: content_of(name, value) for name, value in given.items()}}, files)


def _has_content(value: Any) -> bool:
    """Return whether a mapping is given as a file or by its content; the empty text says that none is wanted."""
    return (is_path(value) and value != "") or isinstance(value, (Mapping, list, tuple))


def content_of(keyword: str, given: Any) -> Any:
    """The content of the mapping given for a keyword, as lists, dicts and texts; an empty file is an empty dict.

    Raises:
        ReadError: it cannot be read, or contradicts itself; names the line.
    """
    read = read_mapping(given, keyword.partition("_")[0])
    _CHECKS[keyword](read)
    return {} if read.value is None else _plain(read)


def _plain(read: Marked) -> Any:
    if isinstance(read.value, dict):
        return {key: _plain(value) for key, value in read.value.items()}
    return [_plain(one) for one in read.value] if isinstance(read.value, list) else read.value
