"""The content of a mapping file, read and checked once, as plain values: they travel to other processes and machines,
where the file need not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.compare.alignment.api_mapping import api_mapping
from msprobe.compare.alignment.cell_mapping import cell_mapping
from msprobe.compare.alignment.data_mapping import data_names
from msprobe.compare.alignment.layer_mapping import layer_mapping
from msprobe.compare.alignment.mapping_file import Marked, read_mapping

_CHECKS: dict[str, Callable[[Marked], object]] = {
    "cell_mapping": cell_mapping,
    "api_mapping": api_mapping,
    "data_mapping": data_names,
    "layer_mapping": layer_mapping,
}


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
