"""``msprobe check``: one run without a golden one, from its paths to findings and hints.

    document = check(["dump"])
    document.findings[0].reason

Each step of each rank is read into facts, here or by an executor; ``judge`` holds the run to all rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from msprobe.check.facts.monitor_files import monitor_folders, read_monitor
from msprobe.check.facts.read_step import read_step
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import StepFacts, facts_of_text, facts_text
from msprobe.check.findings import CheckDocument, Finding, RuleState, told_once
from msprobe.check.learned.judge import LearnedResult
from msprobe.check.learned.learn import learn
from msprobe.check.learned.of_calls import observe
from msprobe.check.learned.of_training import with_examples
from msprobe.check.learned.own_steps import FEWEST_STEPS, judge_own_steps
from msprobe.check.learned.relations import LEARNED_RULES, LearnedRelations
from msprobe.check.needs import lacking
from msprobe.check.registry import RULE_NAMES, RULES, STEP_RULES
from msprobe.check.result import with_accepted
from msprobe.compare.accepted import AcceptOption
from msprobe.compare.inputs.locations import PathLike, opened
from msprobe.compare.records.call_source import call_source
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.host import paused_gc
from msprobe.core.store.process_folders import rank_numbers
from msprobe.core.store.reader import Dump, Place, find_dumps, load_dump

WORK = "msprobe.check.job:read_text"

Execute = Callable[[str, Sequence[str]], Iterator[tuple[int, str]]]
"""Runs a named function (``module:function``, text to text) elsewhere, and yields (number of the text, result)."""
ChooseExecutor = Callable[[int, Iterable[int]], Execute | None]
"""Returns where so many documents of these sizes in bytes are read; None for this process."""
Examples = Literal["none", "without sizes", "all"]
"""Which examples of relations are read: a run that is held to its own first steps needs none of sizes."""
Learned = Callable[[RunFacts], LearnedResult]
"""Judges a run by relations that were learned."""


def check(
    paths: Sequence[PathLike],
    *,
    accept: AcceptOption = None,
    run: str | None = None,
    choose: ChooseExecutor | None = None,
    learned: Learned | None = None,
) -> CheckDocument:
    """Return what cannot be right in one run.

    Args:
        paths: dump roots, step folders or process folders of one run, or URLs of them; folders of a training monitor.
        accept: a file with findings that are known, or its content.
        run: the run of a folder that holds several, by number; None for the newest.
        choose: chooses where the documents are read; None reads them here.
        learned: relations to hold the run to; None learns from its own first steps, and gives hints.

    Raises:
        ReadError: a path holds no dump, or a document or the file of accepted findings is damaged.
        NotComparableError: there is nothing to check.
    """
    places = places_of(paths, run)
    execute = None if choose is None else choose(len(places), _sizes(places))
    monitored = monitored_steps(paths)
    own_steps = len({place.step for place, _ in places}) >= FEWEST_STEPS
    examples: Examples = "all" if learned is not None else "without sizes" if own_steps else "none"
    facts = read_run(places, execute, monitored, examples=examples)
    if not any(one.entries or one.training for one in facts.of.values()):
        empty = next((one.document for one in facts.of.values()), ", ".join(map(str, paths)))
        raise NotComparableError(
            f"{empty} holds no records (its data is empty), so nothing was checked; "
            "msprobe doctor config.json -i FOLDER says why it is empty"
        )
    document = judge(facts, learned or judge_own_steps)
    return with_stacks(with_accepted(document, accept, (*RULE_NAMES, *LEARNED_RULES)), places)


def learn_relations(
    paths: Sequence[PathLike],
    *,
    run: str | None = None,
    choose: ChooseExecutor | None = None,
    written_by: Mapping[str, str] | None = None,
) -> tuple[LearnedRelations, list[CheckDocument]]:
    """Return what always held in good runs, and what ``check`` says of each, as nothing is learned well from a fault.

    Paths are taken for one run until a step of a rank comes again, which begins the next run.

    Raises:
        ReadError: a path holds no dump, or a document is damaged.
        NotComparableError: there is nothing to learn from, or too little.
    """
    runs: list[list[tuple[Place, int]]] = []
    for path in paths:
        places = places_of([path], run)
        known = {(place.step, rank) for place, rank in runs[-1]} if runs else set()
        if not runs or any((place.step, rank) in known for place, rank in places):
            runs.append([])
        runs[-1] += places
    facts = [
        read_run(places, None if choose is None else choose(len(places), _sizes(places)), examples="all")
        for places in runs
    ]
    relations = learn(facts, written_by)
    if not relations.relations:
        raise NotComparableError(
            f"nothing was learned from {', '.join(map(str, paths))}: no relation has three examples; record three "
            "steps or more at level mix"
        )
    return relations, [judge(one) for one in facts]


def _sizes(places: Sequence[tuple[Place, int]]) -> Iterator[int]:
    return (place.document.stat().st_size if place.document.is_file() else 0 for place, _ in places)


def places_of(paths: Iterable[PathLike], run: str | None = None) -> list[tuple[Place, int]]:
    """Return every document below the paths with the number of its rank.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: the paths are several runs.
    """
    found: list[tuple[Place, int]] = []
    for path in paths:
        root = opened(path)
        try:
            places = find_dumps(root, run)
        except ReadError:
            if monitor_folders(root):
                continue
            raise
        by_step: dict[int | None, list[Place]] = {}
        for place in places:
            by_step.setdefault(place.step, []).append(place)
        for group in by_step.values():
            ranks = rank_numbers((place.kind, place.number) for place in group)
            found += zip(group, ranks, strict=True)
    _require_one_run(found)
    return found


def _require_one_run(places: Iterable[tuple[Place, int]]) -> None:
    known: dict[tuple[int | None, int], Place] = {}
    for place, rank in places:
        earlier = known.setdefault((place.step, rank), place)
        if earlier is not place:
            raise NotComparableError(
                f"{earlier.document} and {place.document} are both step {place.step} of rank {rank}: these are several "
                "runs; check one at a time"
            )


def monitored_steps(paths: Iterable[PathLike]) -> list[StepFacts]:
    """Return the facts in the files of a training monitor below the paths.

    Raises:
        ReadError: a file is damaged.
    """
    return [
        facts
        for path in paths
        for folder, rank in monitor_folders(opened(path))
        for facts in read_monitor(folder, rank)
    ]


def read_run(
    places: Sequence[tuple[Place, int]],
    execute: Execute | None = None,
    monitored: Iterable[StepFacts] = (),
    *,
    examples: Examples = "none",
) -> RunFacts:
    """Return the facts of a run, read here or elsewhere, with those of a monitor.

    Args:
        places: the documents, each with the number of its rank.
        execute: reads them elsewhere.
        monitored: steps in the files of a monitor.
        examples: which examples of relations are added.

    Raises:
        ReadError: a document is damaged.
    """
    with paused_gc():
        if execute is None:
            steps = [_read(place, rank, examples) for place, rank in places]
        else:
            tasks = [
                json.dumps([str(place.document), place.step, place.kind, place.number, rank, examples])
                for place, rank in places
            ]
            steps = [facts_of_text(text) for _, text in execute(WORK, tasks)]
        # Whatever dumps need: the steps that a run is held to may be those of a monitor.
        of_monitor = [with_examples(one, examples == "all") for one in monitored]
    return RunFacts.from_steps([*of_monitor, *steps])


def read_text(task: str) -> str:
    """Return the facts of one document as text; the task is the JSON of document, step, kind, number, rank, and
    which examples of relations are wanted."""
    document, step, kind, number, rank, examples = json.loads(task)
    return facts_text(_read(Place(Path(document), step, kind, number), rank, examples))


def _read(place: Place, rank: int, examples: Examples) -> StepFacts:
    wanted = None if examples == "none" else partial(observe, with_sizes=examples == "all")
    return read_step(place, rank, STEP_RULES, wanted)


def judge(run: RunFacts, learned: Learned | None = None) -> CheckDocument:
    """Return what is wrong with a run, each thing once, and which rules could not judge it."""
    with paused_gc():
        found = [finding for facts in run.of.values() for finding in facts.local]
        states, of_steps = [], {finding.rule for finding in found}
        for rule in RULES:
            why = lacking(run, rule.needs)
            judged = not why or rule.name in of_steps  # a step by itself may have what the whole run is said to lack
            states.append(RuleState(rule.name, judged, "" if judged else why))
            if not why and rule.of_run is not None:
                found += rule.of_run(run)
        by_relations = LearnedResult() if learned is None else learned(run)
        found += by_relations.findings
        told = told_once(_first_only(found))
        told = [_with_call(run, one) for one in told]
    return CheckDocument(
        steps=run.steps,
        ranks=run.ranks,
        findings=[one for one in told if not one.is_hint],
        hints=[one for one in told if one.is_hint],
        rules=[*states, *by_relations.states],
        notes=by_relations.notes,
    )


def _first_only(found: Iterable[Finding]) -> list[Finding]:
    """Return findings of rules that tell where something begins in the first step in which they have any."""
    kept = list(found)
    for rule in RULES:
        if rule.first_only:
            steps = [one.step or 0 for one in kept if one.rule == rule.name and not one.is_hint]
            kept = [one for one in kept if one.rule != rule.name or not steps or (one.step or 0) <= min(steps)]
    return kept


def _with_call(run: RunFacts, one: Finding) -> Finding:
    """Return a finding about a module with a call of it, where it names none."""
    facts = run.of.get((one.step or 0, one.rank if one.rank is not None else -1))
    if one.call is not None or one.module is None or facts is None:
        return one
    return replace(one, call=next((call.name for call in facts.modules if call.path == one.module), None))


def with_stacks(document: CheckDocument, places: Sequence[tuple[Place, int]]) -> CheckDocument:
    """Return the document with the call stacks of the calls that it names."""
    by_key = {((place.step or 0), rank): place for place, rank in places}
    loaded: dict[Path, Dump] = {}

    def with_stack(one: Finding) -> Finding:
        place = by_key.get((one.step or 0, one.rank if one.rank is not None else -1))
        if one.stack or one.call is None or place is None:
            return one
        dump = loaded.get(place.document)
        if dump is None:
            dump = loaded[place.document] = load_dump(place)
        return replace(one, stack=call_source(dump, one.call).stack)

    return replace(
        document,
        findings=[with_stack(one) for one in document.findings],
        hints=[with_stack(one) for one in document.hints],
    )
