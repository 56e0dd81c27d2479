"""The options that say which entries, ranks and steps of two dumps belong together.

``MAPPING_OPTIONS`` is the table of options about entries: the keywords of ``msprobe.compare`` and the flags of the
command line are made from it, and ``select_strategy`` turns what is given into an alignment strategy.
``MappingOptions`` is the checked, immutable value of all options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from msprobe.compare.inputs.locations import PathLike
from msprobe.compare.parallel.layout import Layout, parse_layout
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger

if TYPE_CHECKING:
    from msprobe.compare.inputs.slices import TensorSlices


class Value(Enum):
    """What an option about entries takes."""

    SWITCH = auto()
    """Nothing: the option is given or not."""
    FILE = auto()
    """A mapping: the path of its YAML file, or from Python also its content."""
    FILE_OR_BUILT_IN = auto()
    """A mapping as above, or True (a flag without a file) for what is built in."""


class MappingOption(NamedTuple):
    """An option that says which entries belong together.

    Args:
        keyword: its name in ``MappingKeywords`` and ``MappingOptions``; the long flag has the same name.
        flag: the short flag of the command line.
        value: what it takes.
        help: its line in ``msprobe compare --help``.
    """

    keyword: str
    flag: str
    value: Value
    help: str

    @property
    def is_mapping(self) -> bool:
        """Return whether the option takes a mapping, and is no switch."""
        return self.value is not Value.SWITCH


MAPPING_OPTIONS = (
    MappingOption("fuzzy_match", "-fm", Value.SWITCH, "Pair calls by name and order, ignoring their numbers."),
    MappingOption(
        "cell_mapping",
        "-cm",
        Value.FILE_OR_BUILT_IN,
        "Rename modules of the target by FILE; without FILE, only Cell to Module.",
    ),
    MappingOption(
        "api_mapping",
        "-am",
        Value.FILE_OR_BUILT_IN,
        "Rename MindSpore functions to PyTorch's by FILE; without FILE, by the built-in table.",
    ),
    MappingOption("data_mapping", "-dm", Value.FILE, "Pair items of the target with golden items by FILE."),
    MappingOption(
        "layer_mapping",
        "-lm",
        Value.FILE_OR_BUILT_IN,
        "Rename layers by FILE; without FILE, layers are inferred.",
    ),
)
MAPPINGS = tuple(option.keyword for option in MAPPING_OPTIONS if option.is_mapping)
_ABOUT_ENTRIES = tuple(option.keyword for option in MAPPING_OPTIONS)


class MappingKeywords(TypedDict, total=False):
    """The keywords of ``msprobe.compare`` that say which entries, ranks and steps belong together.

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
    run: str | None
    target_parallel: str | Mapping[str, int] | Layout | None
    golden_parallel: str | Mapping[str, int] | Layout | None
    consistent_check: bool
    backend: str | None
    precision: str | None
    ignore_dtype: bool
    target_slice: str | Sequence[Mapping[str, int]] | TensorSlices | None
    golden_slice: str | Sequence[Mapping[str, int]] | TensorSlices | None
    target_request: str | None
    golden_request: str | None


PRECISIONS = ("tf32", "hf32")
NUMBER, ORDER = "number", "order"
_RUN = re.compile(r"(\d+|all)(,(\d+|all))?")
_STEP_PAIR = re.compile(r"(\d+):(\d+)")
BACKENDS = ("fsdp", "megatron")
"""Frameworks that train the model of a consistency check. Both arrangements of layers are recognised by themselves."""
_ONE_RANK = Layout()


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """The options that say which entries, ranks and steps belong together, checked by ``mapping_options``.

    Args:
        fuzzy_match: pair calls by name and order, ignoring their numbers.
        cell_mapping: names of modules. A mapping is None, True (what is built in), or its content as dicts, lists and
            texts.
        api_mapping: names of functions, with their arguments and results.
        data_mapping: names of items (rows of the result table).
        layer_mapping: names of layers by the class of the layer around them.
        pair: how ranks and steps pair: by ``number``, or by ``order`` where both sides number them differently.
        rank: the ranks to compare as numbers and ranges (``0-2,5``), by their number in the target; None: all.
        step: the steps to compare, in the same way; or pairs ``A:B`` of a step of the target and one of the golden run.
        run: which run of a folder that holds several, ``N`` or ``N,M`` for both sides, as ``store.runs`` counts them.
        target_parallel: over how many ranks the target spreads a model (``tp=2,pp=1``).
        golden_parallel: the same of the golden run.
        consistent_check: compare a model in training with the same model in an inference engine.
        backend: the framework that trains the model of a consistency check.
        precision: in what one side multiplies matrices of float32, ``tf32`` or ``hf32``; None: in float32.
        ignore_dtype: compare floating-point values of different dtypes, and judge them by the coarser one.
        target_slice: the part of its tensors by which the target is compared; None for whole tensors.
        golden_slice: the same of the golden run.
        target_request: the request of a server, ``ID[@POSITION]``, whose tokens are compared; None for all.
        golden_request: the same of the golden run, where it has another id or position there.
        files: the files that mappings were read from, by keyword, for messages.
    """

    fuzzy_match: bool = False
    cell_mapping: Any = None
    api_mapping: Any = None
    data_mapping: Any = None
    layer_mapping: Any = None
    pair: str = NUMBER
    rank: str | None = None
    step: str | None = None
    run: str | None = None
    target_parallel: Layout = _ONE_RANK
    golden_parallel: Layout = _ONE_RANK
    consistent_check: bool = False
    backend: str | None = None
    precision: str | None = None
    ignore_dtype: bool = False
    target_slice: TensorSlices | None = None
    golden_slice: TensorSlices | None = None
    target_request: str | None = None
    golden_request: str | None = None
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def runs(self) -> tuple[str | None, str | None]:
        """Return the run of the target and that of the golden run; None takes the newest."""
        target, _, golden = (self.run or "").partition(",")
        return target or None, golden or target or None

    @property
    def step_pairs(self) -> Mapping[int, int]:
        """Return the steps of the golden run by the steps of the target that they pair with; empty for the same."""
        return step_pairs(self.step)

    @property
    def steps(self) -> Collection[int]:
        """Return the steps of the target to compare; empty for all."""
        return self.step_pairs or numbers("step", self.step)

    @property
    def spread(self) -> bool:
        """Return whether ranks are merged before they are compared."""
        return self.target_parallel.spread or self.golden_parallel.spread

    @property
    def as_recorded(self) -> bool:
        """Return whether values are judged whole, by the dtypes that the dumps tell."""
        parts = self.target_slice or self.golden_slice or self.of_request
        return self.precision is None and not (self.ignore_dtype or parts)

    @property
    def of_request(self) -> bool:
        """Return whether the tokens of one request are compared."""
        return bool(self.target_request or self.golden_request)

    @property
    def given(self) -> bool:
        """Return whether any option about entries is given."""
        return bool(self.named)

    @property
    def named(self) -> list[str]:
        """Return the keywords of the options about entries that are given."""
        return [keyword for keyword in _ABOUT_ENTRIES if getattr(self, keyword) not in (None, False)]


def mapping_options(keywords: Mapping[str, Any], files: Mapping[str, str] | None = None) -> MappingOptions:
    """Return the options of some keywords; for a mapping, False and an empty text are the same as None.

    Mappings are passed by their content; ``check_mappings.read_mapping_options`` takes files as well. ``files`` names
    the files that they were read from, by keyword.

    Raises:
        MsprobeException: a keyword is unknown, or has a value that it cannot have.
    """
    known = {option.name for option in fields(MappingOptions)} - {"files"}
    unknown = sorted(set(keywords) - known)
    if unknown:
        raise _invalid(f"compare: unknown keyword {unknown[0]!r}; known: {', '.join(sorted(known))}")
    values = dict(keywords)
    for option in MAPPING_OPTIONS:
        if option.is_mapping:
            values[option.keyword] = _mapping_value(option, values.get(option.keyword))
        else:
            values[option.keyword] = bool(values.get(option.keyword, False))
    if values.setdefault("pair", NUMBER) not in (NUMBER, ORDER):
        raise _invalid(f"pair {values['pair']!r}; known: {NUMBER}, {ORDER}")
    if values.get("precision") is not None and values["precision"] not in PRECISIONS:
        raise _invalid(f"precision {values['precision']!r}; known: {', '.join(PRECISIONS)}")
    values["ignore_dtype"] = bool(values.get("ignore_dtype"))
    numbers("rank", values.get("rank"))
    _check_steps(values.get("step"))
    run = values.get("run")
    if run is not None and not (isinstance(run, str) and _RUN.fullmatch(run)):
        raise _invalid(f"run {run!r}: give the number of a run, all, or one for each side such as 2,1")
    for name in ("target_parallel", "golden_parallel"):
        values[name] = parse_layout(values.get(name), name)
    for name in ("target_slice", "golden_slice"):
        values[name] = _slices(values.get(name), name)
    _check_requests(values)
    _check_consistency(values)
    options = MappingOptions(**values, files=files or {})
    _warn_unused(options)
    return options


def _slices(given: Any, name: str) -> TensorSlices | None:
    """Return the slices of an option, None for whole tensors."""
    if given is None:
        return None
    from msprobe.compare.inputs.slices import parse_slices  # loaded where tensors are cut only

    return parse_slices(given, name) or None


def _check_requests(values: Mapping[str, Any]) -> None:
    """Check the requests of both sides, and that nothing else says what of the tensors is compared."""
    names = [name for name in ("target_request", "golden_request") if values.get(name) is not None]
    if not names:
        return
    if step_pairs(values.get("step")):
        raise _invalid(f"{names[0]} and step {values['step']!r} both say which steps pair; give one of them")
    from msprobe.compare.inputs.request_rows import parse_request  # only where a request is compared

    for name in names:
        parse_request(values[name], name)
    for other in ("target_slice", "golden_slice"):
        if values.get(other):
            raise _invalid(f"{names[0]} and {other} both say which rows are compared; give one of them")
    if any(values[f"{side}_parallel"].spread for side in ("target", "golden")):
        remedy = "record its rows alone with request_id, or compare rank by rank"
        raise _invalid(f"{names[0]}: the rows of a request are not found in merged ranks; {remedy}")


def _mapping_value(option: MappingOption, value: Any) -> Any:
    """Return a mapping, None where none is wanted; raise MsprobeException for a value that no mapping can have."""
    if value is False or (isinstance(value, str) and not value):
        return None
    if not (value is None or value is True or isinstance(value, (str, os.PathLike, Mapping, list, tuple))):
        raise _invalid(f"{option.keyword}: give the path of a YAML file, or its content; got {value!r}")
    if value is True and option.value is Value.FILE:
        raise _invalid(f"{option.keyword}: give the path of a YAML file or a dict; nothing is built in for it")
    return value


def _check_consistency(values: dict[str, Any]) -> None:
    """Check the options of a consistency check; without a mapping, its layers are inferred."""
    wanted, backend = bool(values.get("consistent_check")), values.get("backend")
    values["consistent_check"] = wanted
    if (backend is not None or wanted) and backend not in BACKENDS:
        raise _invalid(f"consistent_check needs backend, one of {', '.join(BACKENDS)}; got {backend!r}")
    if backend is not None and not wanted:
        raise _invalid(f"backend {backend!r} has a meaning with consistent_check only; add that, or leave backend out")
    if wanted and not any(values.get(keyword) for keyword in _ABOUT_ENTRIES):
        values["layer_mapping"] = True


def _warn_unused(options: MappingOptions) -> None:
    """Warn of options beside a layer mapping, which are not used because it decides about all entries."""
    if options.layer_mapping is not None:
        unused = [name for name in _ABOUT_ENTRIES if name != "layer_mapping" and getattr(options, name)]
        if unused:
            logger.warning("compare: beside a layer mapping %s is not used", ", ".join(unused))


def numbers(name: str, text: Any) -> Collection[int]:
    """Return the numbers of a text such as ``0-2,5``; an empty collection for None, which means all numbers.

    Args:
        name: the name of the option, for messages.
        text: numbers and ranges, separated by commas.

    Raises:
        MsprobeException: the text has another form.
    """
    if text is None:
        return ()
    from msprobe.core.config.fields import IntRanges  # imports pydantic

    try:
        return IntRanges.of(*str(text).split(","))
    except ValueError as error:
        raise _invalid(f"{name} {text!r}: {error}; give numbers and ranges such as 0-2,5") from None


def step_pairs(text: Any) -> dict[int, int]:
    """Return the pairs of a text such as ``3:0,4:1``, by the first of each; an empty dict for a text without pairs.

    Raises:
        MsprobeException: some are pairs and some are not, or a step of the target is in two of them.
    """
    parts = [part.strip() for part in str(text).split(",")]
    if not any(":" in part for part in parts):
        return {}
    pairs = [_STEP_PAIR.fullmatch(part) for part in parts]
    found = {int(pair[1]): int(pair[2]) for pair in pairs if pair is not None}
    if len(found) < len(parts):
        raise _invalid(f"step {text!r}: give pairs of a step of the target and one of the golden run, such as 3:0,4:1")
    return found


def _check_steps(text: Any) -> None:
    if not step_pairs(text):
        numbers("step", text)


def _invalid(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
