"""Numbers of targets and tags in a trend database, the same for every database that is written here.

Ids of targets count the pairs of target and metric, as in the databases of mindstudio-probe: the number of a pair whose
target has an id already stays unused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msprobe.core.naming.parser import is_number

Tag = tuple[str, str]
"""Name and category."""
TargetName = tuple[str, int, int]
"""target_name, vpp_stage and micro_step."""


class Targets:
    """Knows the targets and tags of one database, and inserts new ones."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read what the database has already."""
        self._connection = connection
        self.pairs = 0
        self._ids: dict[TargetName, int] = {}
        self._seen: set[tuple[int, int]] = set()
        self._tags: dict[tuple[Tag, int], int] = {}
        for number, name, stage, micro in connection.execute("SELECT * FROM monitoring_targets"):
            self._ids[name, stage, micro] = number
        for number, name, category, metric in connection.execute("SELECT * FROM monitoring_tags"):
            self._tags[(name, category), metric] = number
        query = "SELECT DISTINCT metric_id, target_id FROM tag_target_mapping JOIN monitoring_tags USING (tag_id)"
        self._seen.update(connection.execute(query))
        for (number,) in connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'monitoring_targets'"):
            self.pairs = number

    def number(self, metric: int, target: TargetName) -> int | None:
        """Return the id of a target that this metric has already; else None."""
        number = self._ids.get(target)
        return number if number is not None and (metric, number) in self._seen else None

    def add(self, metric: int, target: TargetName, tags: Sequence[Tag]) -> int:
        """Return the id of a target that is new for this metric, and insert its tags."""
        self.pairs += 1
        number = self._ids.get(target)
        if number is None:
            number = self._ids[target] = self.pairs
            self._connection.execute("INSERT INTO monitoring_targets VALUES (?,?,?,?)", (number, *target))
        self._seen.add((metric, number))
        pairs = [(self._tag(tag, metric), number) for tag in tags]
        self._connection.executemany("INSERT OR IGNORE INTO tag_target_mapping VALUES (?,?)", pairs)
        return number

    def keep_count(self) -> None:
        """Write down how many pairs were counted, from where the next target goes on."""
        last = "UPDATE sqlite_sequence SET seq = ? WHERE name = 'monitoring_targets'"
        self._connection.execute(last, (self.pairs,))

    def _tag(self, tag: Tag, metric: int) -> int:
        number = self._tags.get((tag, metric))
        if number is None:
            number = self._tags[tag, metric] = len(self._tags) + 1
            self._connection.execute("INSERT INTO monitoring_tags VALUES (?,?,?,?)", (number, *tag, metric))
        return number


def parameter_tags(name: str) -> list[Tag]:
    """Return the tags of a name as a monitor writes it (``layers.3.mlp.weight``), each once.

    A part is a module, and a part with the number behind it a layer; a number behind a number is ignored.
    """
    tags: list[Tag] = []
    before = ""
    for part in name.split("."):
        if not is_number(part):
            tags.append((part, "module"))
            before = part
        elif before:
            tags.append((f"{before}.{part}", "layer"))
            before = ""
    return list(dict.fromkeys(tags))
