"""The parts of a comparison put together: one table and its verdicts, in the process that concludes from them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from msprobe.compare.alignment.protocol import SAME
from msprobe.compare.divided.later import JoinedLeaves, LaterPairs, LaterRecords
from msprobe.compare.divided.own_part import Account, OwnPart
from msprobe.compare.leaf_pairs import LeafPairs
from msprobe.compare.levels import row_levels
from msprobe.compare.measure import measure
from msprobe.compare.mode import Policy
from msprobe.compare.pairs import EntryPair
from msprobe.compare.row_facts import joined_facts
from msprobe.compare.run import EXEMPTIONS, Comparison, Past, judged_as
from msprobe.compare.table import LeafTable
from msprobe.core.free_memory import give_back
from msprobe.core.store.parts import Part
from msprobe.core.store.reader import Dump

_Records = dict[str, Any]


def joined(
    own: OwnPart, others: Sequence[Account], parts: Sequence[tuple[Part, Part]], policy: Policy, past: Past
) -> Comparison:
    """The comparison of all parts: ``own`` is the first one, ``others`` are further ones, whose records lie in
    ``parts``. Those records, and the leaves in them, are read when they are asked for."""
    names = [[key.name for key in account.keys] for account in others]
    ours, theirs = (
        LaterRecords([(pair[side], one) for pair, one in zip(parts, names, strict=True)]) for side in (0, 1)
    )
    target, golden = _whole(own.target, ours), _whole(own.golden, theirs)
    table = _table(own, others, golden, (ours, theirs), dtype_gate=policy is Policy.REFERENCE)
    with np.errstate(all="ignore"):  # what overflows or is no number stays visible in the verdict
        facts = [own.account.facts, *(account.facts for account in others)]
        measured = measure(table, joined_facts(facts), EXEMPTIONS, vanished=past.vanished)
        give_back()
        judged = judged_as(own.account.mode, measured, past)
    give_back()
    levels = row_levels(table, judged, policy)
    return Comparison(target, golden, own.account.mode, policy, table, measured, judged, levels, None)


def _table(
    own: OwnPart,
    others: Sequence[Account],
    golden: Dump,
    records: tuple[LaterRecords, LaterRecords],
    *,
    dtype_gate: bool,
) -> LeafTable:
    later = [key for account in others for key in account.keys]
    keys = [*own.table.keys, *later]
    ends = np.cumsum([0, *(int(one.starts[-1]) for one in (own.account, *others))])
    parts = [own.table.starts, *(one.starts[1:] + end for one, end in zip(others, ends[1:].tolist(), strict=False))]
    starts = np.concatenate(parts)
    pairs = LaterPairs(LeafPairs(golden, SAME, dtype_gate, across=False), later, records)
    return LeafTable(
        entries=[*own.table.entries, *(EntryPair(key.name, key.name) for key in later)],
        target=JoinedLeaves(own.table.target, starts, len(own.table.keys), pairs, 0),
        golden=JoinedLeaves(own.table.golden, starts, len(own.table.keys), pairs, 1),
        starts=starts,
        keys=keys,
        checksums=own.table.checksums,
        lone_rows=np.concatenate([own.table.lone, *(account.lone for account in others)]),
    )


def _whole(dump: Dump, later: LaterRecords) -> Dump:
    return replace(dump, data=cast(dict[str, _Records], ChainMap(dump.data, cast(Any, later))))
