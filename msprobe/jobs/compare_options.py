"""The options of ``msprobe.compare``, checked and with their defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msprobe.compare.alignment.options import MAPPINGS, MappingKeywords, MappingOptions, mapping_options
from msprobe.compare.inputs.locations import PathLike, local, local_file
from msprobe.core.errors import InterfaceError, argument_text

if TYPE_CHECKING:
    from msprobe.compare.accepted import AcceptOption

Progress = Callable[[int, int], None]
GROUPS = ("operator",)
"""What rows that differ can be grouped by."""


class CompareOptions(MappingKeywords, total=False):
    """Every option may be left out; those of ``MappingKeywords`` say which entries, ranks and steps belong together.

    Attributes:
        policy: ``default`` or ``reference``: whose rules judge the rows.
        output: the folder of the result tables; None writes no tables.
        suffix: a text in the names of the tables.
        xlsx: write workbooks instead of csv files.
        html, junit: files for a report; None writes no report.
        executor: where ranks are compared: ``auto``, ``serial``, ``processes:N``, ``dask://HOST:PORT``,
            ``dask://local``.
        metrics: functions (``module:function``) for further columns of whole tensors.
        noise: a file of ``msprobe noise`` to judge by.
        config: a YAML file of matrices that tensors are multiplied with before they are compared.
        accept: a file of accepted differences, or its content: they do not make the runs diverged.
        progress: a function that is called with the number of compared pairs and the number of all pairs.
        log_items: log a line per value; all ranks are then compared in this process.
        group_by: ``operator`` to count the rows that differ by operator (``summary.operators``).
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
    accept: AcceptOption
    progress: Progress | None
    log_items: bool
    group_by: str | None


def check_options(options: Mapping[str, Any]) -> tuple[CompareOptions, MappingOptions]:
    """Return the options with defaults for those that are left out, and the mapping options among them.

    Raises:
        InterfaceError: there is no such option.
        MsprobeException: a mapping cannot have such a value, a result would lie at a URL or where a folder is, or needs
            a package that is not installed.
        ReadError: a mapping file cannot be read, or contradicts itself.
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
        accept=None,
        progress=None,
        log_items=False,
        group_by=None,
    )
    names = [*own, *MappingKeywords.__annotations__]
    for name in options:
        if name not in names:
            import difflib  # loaded for a wrong name only

            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"options: {', '.join(names)}"
            raise InterfaceError(f"compare: no option {name!r}; {hint}")
    mapping = load_mapping_options({name: value for name, value in options.items() if name not in own})
    own.update({name: value for name, value in options.items() if name in own})  # type: ignore[typeddict-item]
    if own["group_by"] not in (None, *GROUPS):
        raise InterfaceError(f"compare: group_by is {' or '.join(GROUPS)}, got {argument_text(own['group_by'])}")
    if own["output"] is not None:
        local(own["output"])
    for name, file in (("html", own["html"]), ("junit", own["junit"])):
        if file is not None:
            local_file(file, name)
    _load_libraries(own)
    return own, mapping


def _load_libraries(options: CompareOptions) -> None:
    """Import what only the wanted results need, before the comparison and not after it.

    Raises:
        MsprobeException: a package is not installed.
    """
    if options["html"] is not None:
        from msprobe.report.html import page

        page.load_library()
    if options["xlsx"] and options["output"] is not None:
        from msprobe.report import xlsx_table

        xlsx_table.load_library()


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
