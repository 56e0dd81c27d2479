"""What ``msprobe.compare`` can be told beside the two dumps."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msprobe.compare.alignment.options import MAPPINGS, MappingKeywords, MappingOptions, mapping_options
from msprobe.compare.inputs.locations import PathLike, local, local_file
from msprobe.core.errors import InterfaceError

Progress = Callable[[int, int], None]


class CompareOptions(MappingKeywords, total=False):
    """Every option may be left out; those of ``MappingKeywords`` say which entries, ranks and steps belong together.

    ``policy`` is ``default`` or ``reference``. ``output`` is the folder for the result tables, ``suffix`` goes into
    their names, ``xlsx`` makes them workbooks; ``html`` and ``junit`` are files for a report. What is not named is not
    written. ``executor`` says where ranks are compared (``auto``, ``serial``, ``processes:N``, ``dask://HOST:PORT``,
    ``dask://local``); ``metrics`` names functions for further columns of whole tensors (``module:function``), ``noise``
    a file of ``msprobe noise`` to judge by, ``config`` one of matrices to multiply tensors with (see
    ``compare.calibration``); ``progress`` is called with the number of pairs done and of all pairs.
    ``log_items`` writes a line per value into the log; all ranks are then compared in this process.
    """

    policy: str
    output: PathLike | None
    suffix: str
    xlsx: bool
    html: PathLike | None
    junit: PathLike | None
    executor: str
    metrics: Sequence[str]
    noise: PathLike | None
    config: PathLike | None
    progress: Progress | None
    log_items: bool


def checked(options: Mapping[str, Any]) -> tuple[CompareOptions, MappingOptions]:
    """The options with defaults filled in.

    Raises:
        InterfaceError: there is no such option.
        MsprobeException: a value no mapping can be, or a result that is wanted at a URL or in the place of a folder.
    """
    own = CompareOptions(
        policy="default",
        output=None,
        suffix="",
        xlsx=False,
        html=None,
        junit=None,
        executor="auto",
        metrics=(),
        noise=None,
        config=None,
        progress=None,
        log_items=False,
    )
    known = [*own, *MappingKeywords.__annotations__]
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"options: {', '.join(known)}"
            raise InterfaceError(f"compare: no option {name!r}; {hint}")
    mapping = load_mapping_options({name: value for name, value in options.items() if name not in own})
    own.update({name: value for name, value in options.items() if name in own})  # type: ignore[typeddict-item]
    if own["output"] is not None:
        local(own["output"])
    for name, place in (("html", own["html"]), ("junit", own["junit"])):
        if place is not None:
            local_file(place, name)
    return own, mapping


def load_mapping_options(keywords: Mapping[str, Any]) -> MappingOptions:
    """Return the options of the keywords of ``MappingKeywords``, with the content of mappings that are files.

    Raises:
        MsprobeException: a keyword is unknown, or no mapping can have such a value.
        ReadError: a mapping file cannot be read, or contradicts itself.
    """
    if not any(isinstance(keywords.get(name), (str, os.PathLike, Mapping, list, tuple)) for name in MAPPINGS):
        return mapping_options(keywords)
    from msprobe.compare.alignment.check_mappings import read_mapping_options  # YAML, only where a mapping is given

    return read_mapping_options(keywords)
