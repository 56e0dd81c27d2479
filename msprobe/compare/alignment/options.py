"""What a user says about alignment, as one immutable value made from the keywords of the Python API or the command
line."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from msprobe.compare.inputs.locations import PathLike
from msprobe.compare.parallel.layout import Layout, parse_layout
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger

BACKENDS = ("fsdp", "megatron")
"""How the training side of a consistency check holds its layers; either arrangement is recognised by itself."""
MAPPINGS = ("cell_mapping", "api_mapping", "data_mapping", "layer_mapping")
NUMBER, ORDER = "number", "order"
_ONE_RANK = Layout()


class MappingKeywords(TypedDict, total=False):
    """The keywords of ``compare`` that say which entries belong together.

    A mapping is the path of its file, its content, or True for what is built in.
    """

    fuzzy_match: bool
    cell_mapping: PathLike | Mapping[str, str] | bool | None
    api_mapping: PathLike | list[Mapping[str, Any]] | bool | None
    data_mapping: PathLike | Mapping[str, str | None] | None
    layer_mapping: PathLike | Mapping[str, Mapping[str, str]] | bool | None
    pair: str
    rank: str | None
    step: str | None
    target_parallel: str | Mapping[str, int] | Layout | None
    golden_parallel: str | Mapping[str, int] | Layout | None
    consistent_check: bool
    backend: str | None


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """See ``MappingKeywords``. A mapping is True, or its content as dicts, lists and texts.

    ``pair`` says how ranks and steps pair: by number, or by order where both sides number them differently.
    ``rank`` and ``step`` are the only ones to compare (``0-2,5``), by their number in the target.
    ``target_parallel`` and ``golden_parallel`` say over how many ranks each side spreads a model (``tp=2,pp=1``).
    ``consistent_check`` compares a model in training with it in an inference engine (see ``consistency``), ``backend``
    names the training side.
    ``files`` are the files that mappings came from, by keyword, for messages.
    """

    fuzzy_match: bool = False
    cell_mapping: Any = None
    api_mapping: Any = None
    data_mapping: Any = None
    layer_mapping: Any = None
    pair: str = NUMBER
    rank: str | None = None
    step: str | None = None
    target_parallel: Layout = _ONE_RANK
    golden_parallel: Layout = _ONE_RANK
    consistent_check: bool = False
    backend: str | None = None
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def spread(self) -> bool:
        """Whether ranks are merged before they are compared."""
        return self.target_parallel.spread or self.golden_parallel.spread

    @property
    def given(self) -> bool:
        """Whether anything is said about entries."""
        return bool(self.named)

    @property
    def named(self) -> list[str]:
        """The keywords of what is said about entries."""
        mappings = [name for name in MAPPINGS if getattr(self, name) is not None]
        return ["fuzzy_match", *mappings] if self.fuzzy_match else mappings


def mapping_options(keywords: Mapping[str, Any], files: Mapping[str, str] | None = None) -> MappingOptions:
    """Return the options of some keywords; False and an empty text mean that a mapping is not wanted.

    Mappings are given by their content: ``read_mapping_options`` takes files as well. ``files`` has the files that they
    came from, by keyword.

    Raises:
        MsprobeException: a keyword is unknown, or no mapping can have such a value.
    """
    known = {one.name for one in fields(MappingOptions)} - {"files"}
    unknown = sorted(set(keywords) - known)
    if unknown:
        raise _invalid(f"compare: unknown keyword {unknown[0]!r}; known: {', '.join(sorted(known))}")
    values = dict(keywords)
    for name in MAPPINGS:
        value = values.get(name)
        if value is False or (isinstance(value, str) and not value):
            values[name] = None
        elif not (value is None or value is True or isinstance(value, (str, os.PathLike, Mapping, list, tuple))):
            raise _invalid(f"{name}: give the path of a YAML file, or its content; got {value!r}")
    if values.get("data_mapping") is True:
        raise _invalid("data_mapping: give the path of a YAML file or a dict; nothing is built in for it")
    values["fuzzy_match"] = bool(values.get("fuzzy_match", False))
    if values.setdefault("pair", NUMBER) not in (NUMBER, ORDER):
        raise _invalid(f"pair {values['pair']!r}; known: {NUMBER}, {ORDER}")
    for name in ("rank", "step"):
        numbers(name, values.get(name))
    for name in ("target_parallel", "golden_parallel"):
        values[name] = parse_layout(values.get(name), name)
    _check_consistency(values)
    return _warn_unused(MappingOptions(**values, files=files or {}))


def _check_consistency(values: dict[str, Any]) -> None:
    """Without a mapping the layers of a consistency check are inferred."""
    asked, backend = bool(values.get("consistent_check")), values.get("backend")
    values["consistent_check"] = asked
    if (backend is not None or asked) and backend not in BACKENDS:
        raise _invalid(f"backend {backend!r}: consistent_check needs one of {', '.join(BACKENDS)}")
    if backend is not None and not asked:
        raise _invalid(f"backend {backend!r} says something about consistent_check alone, which is not asked for")
    if asked and not any(values.get(name) for name in ("fuzzy_match", *MAPPINGS)):
        values["layer_mapping"] = True


def _warn_unused(options: MappingOptions) -> MappingOptions:
    """Return the options. A layer mapping decides about everything: warn of mappings beside it, which are not used."""
    if options.layer_mapping is not None:
        beside = [name for name in ("fuzzy_match", *MAPPINGS[:3]) if getattr(options, name)]
        if beside:
            logger.warning("compare: beside a layer mapping %s is not used", ", ".join(beside))
    return options


def numbers(name: str, text: Any) -> Collection[int]:
    """``0-2,5`` as numbers; none given means none, which asks for all.

    Raises:
        MsprobeException: the text is not of this form.
    """
    if text is None:
        return ()
    from msprobe.core.config.fields import IntRanges  # the configuration is not free

    try:
        return IntRanges.of(*str(text).split(","))
    except ValueError as error:
        raise _invalid(f"{name} {text!r}: {error}; give numbers and ranges such as 0-2,5") from None


def _invalid(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
