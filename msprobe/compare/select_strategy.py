"""Which alignment strategy pairs the entries of two dumps.

``STRATEGIES`` is the table of strategies: the first row that fits the options, the frameworks and the policy is used.
Cell mapping, API mapping and data mapping are no strategies of their own. They are put around the one that the table
gives: the first two translate names before these are matched (``_translated``), the last pairs single items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from msprobe.compare.alignment import cross_framework
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.alignment.protocol import ItemRule, Renaming, Strategy
from msprobe.compare.records.entries import EntryKey
from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import Dump

if TYPE_CHECKING:
    from msprobe.compare.alignment.api_mapping import ApiMapping
    from msprobe.compare.alignment.cell_mapping import Translator

_NO_OPTIONS = MappingOptions()


class Choice(NamedTuple):
    """What a strategy is chosen by: two dumps, the options, and the policy (``published`` is the reference policy)."""

    target: Dump
    golden: Dump
    options: MappingOptions
    published: bool

    @property
    def across(self) -> bool:
        """Return whether the dumps were recorded by two frameworks."""
        return cross_framework.differ(self.target, self.golden)


def strategy_of(
    target: Dump, golden: Dump, options: MappingOptions = _NO_OPTIONS, *, published: bool = False
) -> Strategy:
    """Return the strategy for two dumps.

    Args:
        target: the dump to be judged.
        golden: the dump to compare with.
        options: the options of the user.
        published: leave out what the rules of the reference tool do not do.

    Raises:
        ReadError: a mapping file cannot be read; names file, line and key.
        NotComparableError: the built-in API mapping is wanted, and both frameworks have PyTorch's names.
    """
    choice = Choice(target, golden, options, published)
    row = next(row for row in STRATEGIES if row.fits(choice))
    strategy = row.strategy(choice)
    if row.pairs_recorded_names:
        return strategy
    if options.given or choice.across:
        strategy = _translated(strategy, choice)
    if options.data_mapping is not None:
        from msprobe.compare.alignment.data_mapping import data_mapping

        return data_mapping(options.data_mapping, strategy)
    return strategy


def _inferred_match(_choice: Choice) -> Strategy:
    from msprobe.compare.layer_inference.inferred_match import InferredMatch

    return InferredMatch()


def _inferred_match_of_functions(choice: Choice) -> Strategy:
    from msprobe.compare.layer_inference.inferred_match import InferredMatch

    return InferredMatch(functions=_api_mapping(choice))


def _layer_mapping(choice: Choice) -> Strategy:
    from msprobe.compare.alignment.layer_mapping import layer_mapping

    return layer_mapping(choice.options.layer_mapping, _item_rule(choice) if choice.across else None)


def _item_rule(choice: Choice) -> ItemRule:
    """Return how items pair between two frameworks; the published rules pair all arguments by position."""
    if choice.published:
        return cross_framework.parameter_names
    from msprobe.compare.layer_inference.tensor_pairs import TensorPairs  # between two frameworks only

    return TensorPairs(choice.target, choice.golden)


def _fuzzy_match(_choice: Choice) -> Strategy:
    from msprobe.compare.alignment.by_name import FuzzyMatch

    return FuzzyMatch()


def _exact_match(_choice: Choice) -> Strategy:
    from msprobe.compare.alignment.by_name import ExactMatch

    return ExactMatch()


def _sequence_match(_choice: Choice) -> Strategy:
    from msprobe.compare.alignment.by_name import SequenceMatch

    return SequenceMatch()


_NOTHING = ""


class Row(NamedTuple):
    """A strategy and when it is used. What is None does not matter.

    Args:
        strategy: returns the strategy; imports it, so that a comparison loads no other one.
        option: the keyword that must be given; ``_NOTHING``: no option about entries may be given.
        built_in: whether the option must be given without a file.
        alone: whether no other option about entries may be given.
        across: whether the dumps must be from two frameworks, or from one.
        published: whether the policy must be the reference policy, or the default one.
        pairs_recorded_names: whether the strategy decides about all entries by the names that were recorded, so that
            no other mapping is applied.
    """

    strategy: Callable[[Choice], Strategy]
    option: str | None = None
    built_in: bool | None = None
    alone: bool = False
    across: bool | None = None
    published: bool | None = None
    pairs_recorded_names: bool = False

    def fits(self, choice: Choice) -> bool:
        """Return whether the strategy is one for this choice."""
        return (
            self._fits_options(choice.options)
            and self.across in (None, choice.across)
            and self.published in (None, choice.published)
        )

    def _fits_options(self, options: MappingOptions) -> bool:
        if self.option is None:
            return True
        if self.option == _NOTHING:
            return not options.given
        if self.alone and options.named != [self.option]:
            return False
        value = getattr(options, self.option)
        return value not in (None, False) and self.built_in in (None, value is True)


STRATEGIES = (
    Row(_inferred_match, option="layer_mapping", built_in=True, published=False, pairs_recorded_names=True),
    Row(_inferred_match, option=_NOTHING, across=True, published=False, pairs_recorded_names=True),
    Row(
        _inferred_match_of_functions,
        option="api_mapping",
        alone=True,
        across=True,
        published=False,
        pairs_recorded_names=True,
    ),
    Row(_layer_mapping, option="layer_mapping", pairs_recorded_names=True),
    Row(_fuzzy_match, option="fuzzy_match"),
    Row(_exact_match, published=True),
    Row(_sequence_match),
)
"""The first row that fits is used; the last one always fits."""


def _translated(strategy: Strategy, choice: Choice) -> Strategy:
    """Return the strategy behind the translations of names that the options ask for.

    Between two frameworks the names of functions, parameters and modules are translated as well. The published rules
    translate only what an option asks for.
    """
    from msprobe.compare.alignment.cell_mapping import Renamed

    fold = choice.across and not choice.published
    options = choice.options
    target: list[Translator] = []
    golden: list[Translator] = []
    rule: ItemRule | None = _item_rule(choice) if fold else None
    if options.cell_mapping is not None:
        from msprobe.compare.alignment.cell_mapping import CellMapping, cell_mapping

        target.append(cell_mapping(options.cell_mapping))
        golden.append(CellMapping())
    if options.api_mapping is not None:
        functions = _api_mapping(choice)
        (target if functions.translates_target else golden).append(functions)
        rule = _first_rule(functions.rule, rule) if functions.lists else rule
    elif fold:
        target += _function_names(choice.target)
        golden += _function_names(choice.golden)
    if fold:
        target.append(cross_framework.module_path)
        golden.append(cross_framework.module_path)
    return Renamed(strategy, tuple(target), tuple(golden), rule) if target or golden else strategy


def _api_mapping(choice: Choice) -> ApiMapping:
    """Return the API mapping; raise NotComparableError when the built-in one is wanted and has nothing to translate."""
    from msprobe.compare.alignment.api_mapping import api_mapping

    content = choice.options.api_mapping
    if content is True and not (_function_names(choice.target) or _function_names(choice.golden)):
        raise NotComparableError(
            "the built-in API mapping is for MindSpore against PyTorch, and neither dump is MindSpore's; "
            "leave out -am, or give a file"
        )
    return api_mapping(content, translates_target=cross_framework.translates_target(choice.target, choice.golden))


def _function_names(dump: Dump) -> list[Translator]:
    """Return what translates the function names of a dump to PyTorch's; nothing where they are PyTorch's."""
    function_name = cross_framework.framework_names(dump).function_name
    return [] if function_name is None else [function_name]


def _first_rule(first: ItemRule, second: ItemRule | None) -> ItemRule:
    """Return a rule that is the first one where that has an answer, and else the second."""
    if second is None:
        return first
    other = second

    def rule(target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        return first(target, golden) or other(target, golden)

    return rule
