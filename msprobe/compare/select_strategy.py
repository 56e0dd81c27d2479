"""From what the user said, and what the two dumps are, to one strategy.

A file or flag names the strategy. Without one, names are matched as they are. Two frameworks, and a layer mapping
without a file, are aligned by inference. The reference policy matches as published; the default one realigns calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.compare.alignment import cross_framework
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.alignment.protocol import ItemRule, Renaming, Strategy
from msprobe.compare.records.entries import EntryKey
from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import Dump

if TYPE_CHECKING:
    from msprobe.compare.alignment.cell_mapping import Translator

_NOTHING_SAID = MappingOptions()


def strategy_of(
    target: Dump, golden: Dump, options: MappingOptions = _NOTHING_SAID, *, published: bool = False
) -> Strategy:
    """The strategy for these dumps. ``published`` leaves out whatever the published rules do not do.

    Raises:
        ReadError: a mapping file cannot be read; names file, line and key.
        NotComparableError: an API mapping without a MindSpore side.
    """
    across = cross_framework.differ(target, golden)
    if not published and (options.layer_mapping is True or (across and not options.given)):
        from msprobe.compare.layer_inference.inferred_match import InferredMatch

        return InferredMatch()
    if options.layer_mapping is not None:
        from msprobe.compare.alignment.layer_mapping import layer_mapping

        return layer_mapping(options.layer_mapping, _items(target, golden, published=published) if across else None)
    matcher = _matcher(options, published)
    if options.given or across:
        matcher = _translated(matcher, target, golden, options, fold=across and not published)
    if options.data_mapping is not None:
        from msprobe.compare.alignment.data_mapping import data_mapping

        return data_mapping(options.data_mapping, matcher)
    return matcher


def _items(target: Dump, golden: Dump, *, published: bool) -> ItemRule:
    """How items pair between two frameworks; the published rules pair all arguments by position."""
    if published:
        return cross_framework.parameter_names
    from msprobe.compare.alignment.cross_framework import TensorOrder

    return TensorOrder(target, golden)


def _matcher(options: MappingOptions, published: bool) -> Strategy:
    if options.fuzzy_match:
        from msprobe.compare.alignment.by_name import FuzzyMatch

        return FuzzyMatch()
    if published:
        from msprobe.compare.alignment.by_name import ExactMatch

        return ExactMatch()
    from msprobe.compare.alignment.by_name import SequenceMatch

    return SequenceMatch()


def _translated(matcher: Strategy, target: Dump, golden: Dump, options: MappingOptions, *, fold: bool) -> Strategy:
    """The matcher behind the translations of names that are wanted; ``fold`` adds those between frameworks."""
    from msprobe.compare.alignment.cell_mapping import Renamed

    ours: list[Translator] = []
    theirs: list[Translator] = []
    rule: ItemRule | None = cross_framework.parameter_names if fold else None
    if options.cell_mapping is not None:
        from msprobe.compare.alignment.cell_mapping import CellMapping, cell_mapping

        ours.append(cell_mapping(options.cell_mapping))
        theirs.append(CellMapping())
    if options.api_mapping is not None or fold:
        from msprobe.compare.alignment.api_mapping import api_mapping

        ms_is_target = cross_framework.is_mindspore(target) or not cross_framework.is_mindspore(golden)
        given = True if options.api_mapping is None else options.api_mapping
        if given is True and not (cross_framework.is_mindspore(target) or cross_framework.is_mindspore(golden)):
            raise NotComparableError(
                "the built-in API mapping is for MindSpore against PyTorch, and neither dump is MindSpore's; "
                "leave out -am, or give a file"
            )
        apis = api_mapping(given, ms_is_target=ms_is_target)
        (ours if ms_is_target else theirs).append(apis)
        rule = _both(apis.rule, rule) if apis.lists else rule
    if fold:
        ours.append(cross_framework.module_path)
        theirs.append(cross_framework.module_path)
    return Renamed(matcher, tuple(ours), tuple(theirs), rule) if ours or theirs else matcher


def _both(first: ItemRule, second: ItemRule | None) -> ItemRule:
    """The first rule where it says something, else the second."""
    if second is None:
        return first
    other = second

    def rule(target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        return first(target, golden) or other(target, golden)

    return rule
