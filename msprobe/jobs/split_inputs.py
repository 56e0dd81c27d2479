"""Write for each step and rank of a run which part of the inputs of a run on one process its modules are fed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.dump_pairs import locate
from msprobe.compare.fed_inputs.split import Votes, split_inputs
from msprobe.compare.layout_from_records import with_recorded_layouts
from msprobe.compare.parallel.layout import parse_layout
from msprobe.core.dump.tasks.input_plan import write_plan
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.layout import process_folder, step_folder


class Written(NamedTuple):
    """What was written: the number of plans and of the tensors in them, and which tensors stay live, with reasons."""

    plans: int
    tensors: int
    left: list[str]


def write_split_inputs(target: Path, golden: Path, output: Path, target_parallel: str | None) -> Written:
    """Write the plans below ``output``.

    Args:
        target: the dump of the run whose modules are to be fed; statistics are enough.
        golden: the dump of one process, of task tensor.
        output: the folder that ``load.path`` will name.
        target_parallel: over how many ranks the target spreads its model.

    Raises:
        NotComparableError: the runs have no calls in common, or the golden run is spread over ranks.
        ReadError: a path holds no dump, or a document is damaged.
        MsprobeException: the folder cannot be written.
    """
    options = MappingOptions(target_parallel=parse_layout(target_parallel, "--target-parallel"))
    located = locate(target, golden, with_recorded_layouts(options, target, golden))
    plans = tensors = 0
    left: dict[str, None] = {}
    votes: Votes = Counter()
    for pair in located.pairs:
        split = split_inputs(*pair, votes)
        left.update(dict.fromkeys(split.left))
        for place, parts in split.plans:
            rank = place.number if place.kind == "rank" else None
            folder = process_folder(step_folder(output, place.step or 0), rank, place.number or 0)
            try:
                write_plan(parts, folder)
            except OSError as error:
                reason = f"the inputs cannot be written to {folder} ({error.strerror}); choose another folder with -o"
                raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
            plans, tensors = plans + 1, tensors + len(parts)
    if not plans:
        raise NotComparableError("no step is on both sides")
    return Written(plans, tensors, list(left))
