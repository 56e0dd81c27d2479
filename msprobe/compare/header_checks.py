"""Check the header of a dump.json for what no value shows, and say so.

Fields that this version of msprobe does not know are named: without such a note a reader would take them for
understood. So are steps of optimizers and cleared gradients of one run alone, where nothing recorded shows them.
"""

from __future__ import annotations

from msprobe.compare.alignment import cross_framework
from msprobe.compare.records.optimizer_steps import (
    GRADIENT_CALLS,
    OPTIMIZERS,
    gradient_calls,
    number_of_steps,
    optimizer_steps,
)
from msprobe.compare.records.run_end import ended_early
from msprobe.compare.records.source_lines import source_line
from msprobe.core.store.reader import Dump

_KNOWN = frozenset({"task", "level", "framework", "dump_data_dir"})
_OWN = frozenset(  # msprobe adds them to the format; a test says when ``DumpDocument`` has others
    {
        *("kernel_source", "model_file", "producer", "record_level", "request", "why_empty"),
        *("written_by", "run", "end", "process_groups", "shared_storage", "optimizers"),
        *(
            "gradient_calls",
            *("reads", "moves"),
            "inputs_fed",
            "perturbed",
            "scheduled_tokens",
            "sampled",
            "kept_for",
            "not_measured",
        ),
        *("parameters_after_step", "gradients_of_step", "training_calls", "model_parameters"),
    }
)
_FORMAT = ("version", "format_version", "schema_version", "dump_version")
_TEXTS = ("level", "framework")
_SHOWN = 5
_SIDES = "target", "golden run"


def header_notes(dump: Dump) -> list[str]:
    """Return sentences to stand beside a verdict; none for the header of an ordinary dump."""
    header, document = dump.header, dump.place.document
    notes = [cross_framework.unknown(dump)]
    notes += [
        f"{document}: its `{name}` is not a text and says nothing"
        for name in _TEXTS
        if not isinstance(header.get(name), str | None)
    ]
    if header.get("perturbed") is not None:
        notes.append(
            f"{document} was recorded with perturb: its parameters and inputs were moved by one unit round-off; "
            "msprobe noise learns from it what rounding does"
        )
    unknown = sorted(header.keys() - _KNOWN - _OWN - set(_FORMAT))
    if unknown:
        names = ", ".join(unknown[:_SHOWN]) + (f" and {len(unknown) - _SHOWN} more" if unknown[_SHOWN:] else "")
        notes.append(f"{document}: fields that this version does not know and leaves out: {names}")
    return [note for note in notes if note]


def version_notes(dump: Dump) -> list[str]:
    """Return a sentence for each version field of the header; the documented format has none."""
    return [
        f"{dump.place.document} says {name} {dump.header[name]!r} of the format, and this msprobe knows none: "
        "what else it says may be read wrongly; compare it with the msprobe that wrote it"
        for name in _FORMAT
        if dump.header.get(name) is not None
    ]


def steps_of_one_side(target: Dump, golden: Dump) -> list[str]:
    """Return a sentence where one run alone makes steps of optimizers, which its dump says in the header, nothing
    where the other one ended before it could."""
    if not _are_recorded_alike(target, golden, OPTIMIZERS):
        return []
    sides = [list(optimizer_steps(dump)) for dump in (target, golden)]
    if all(sides) or not any(sides) or (ended_early(golden, target) if sides[0] else ended_early(target, golden)):
        return []
    own = sides[0] or sides[1]
    count = number_of_steps(own)
    steps = f"1 step of {own[0].kind} is" if count == 1 else f"{count} steps of optimizers are"
    return [f"{steps} made in the {_SIDES[not sides[0]]} alone{_at(own[0].stack)}: no value shows what follows"]


def gradients_cleared_by_one_side(target: Dump, golden: Dump) -> list[str]:
    """Return a sentence for each kind of call for gradients (``backward``, ``zero_grad``) that one run alone makes,
    nothing where the other one ended before it could."""
    if not _are_recorded_alike(target, golden, GRADIENT_CALLS):
        return []
    ended = ended_early(target, golden), ended_early(golden, target)
    calls = [dict(reversed(list(gradient_calls(dump)))) for dump in (target, golden)]
    return [
        f"`{name}` is called in the {_SIDES[name not in calls[0]]} alone{_at(calls[0].get(name) or calls[1][name])}"
        for name in sorted(calls[0].keys() ^ calls[1].keys())
        if not ended[name in calls[0]]
    ]


def _are_recorded_alike(target: Dump, golden: Dump, key: str) -> bool:
    """Return whether headers differ in a key, and the recordings of both runs say the same of the same calls: one
    version of one tool wrote both, at one level."""
    names = "level", "framework", "written_by"
    alike = all(target.header.get(name) == golden.header.get(name) for name in names)
    return alike and target.header.get(key) != golden.header.get(key)


def _at(stack: tuple[str, ...]) -> str:
    line = source_line(stack) if stack else ""
    return f" ({line})" if line else ""
