"""Tasks and answers of workers survive the way to another process and back."""

from pathlib import Path

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.parallel.layout import Coordinates, Replica
from msprobe.core.store.reader import Place
from msprobe.report.rank_outcome import PairOptions, RankTask, task_of, task_text


def test_ranks_of_a_replica_keep_their_coordinates() -> None:
    members = tuple(Place(Path(f"/dumps/rank{number}/dump.json"), 0, "rank", number) for number in range(2))
    coordinates = ((Coordinates(tp=0), Coordinates(tp=1)),)
    replica = Replica(members[0].document, 0, "rank", 0, (members,), coordinates, chunks=2, sharing=4)
    task = RankTask([(replica, members[0])], [0], PairOptions(Policy.DEFAULT, MappingOptions(), "stamp"))
    assert task_of(task_text(task)).pairs == task.pairs
