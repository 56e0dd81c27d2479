"""Replicas: what several ranks, or several names, hold as one value stays one value; their data differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msprobe.check.facts.roles import NORMS, Roles
from msprobe.check.facts.run_facts import ParameterHistory, RunFacts, gradient_of, histories
from msprobe.check.facts.step_facts import ModuleCall, StepFacts, Tensor, differ
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import BACKWARD, CALLS, PARAMETERS, RANKS, STEPS
from msprobe.check.rule import Rule
from msprobe.check.rules.parameters import per_module

_EMBEDDINGS = ("Embedding", "VocabParallelEmbedding", "VocabEmbedding")


def replicas_apart(run: RunFacts) -> Iterator[Finding]:
    """Yield the parameters that begin equal on several ranks and differ later, or that get equal gradients all along
    although they differ."""
    roles = Roles(run)
    names = dict.fromkeys(name for parameters in roles.parameters.values() for name in parameters)
    groups = {name: roles.begin_equal(name) for name in names}
    found: list[tuple[ParameterHistory, Finding]] = []
    for name, equal in groups.items():
        for ranks in equal:
            apart = roles.apart_at(name, ranks)
            history = roles.parameters[ranks[0]][name]
            if apart is None or not _is_replica(roles, history, ranks):
                continue
            in_step = [other for other, others in groups.items() if ranks in others and roles.in_step(other, ranks)]
            certainty = _certainty(roles, history, in_step)
            step, rank = apart
            kept = _beside(roles, in_step, ranks, step) + _of_gradients(run, name, ranks, step)
            if roles.meet_again(name, ranks):
                certainty = "possible"
                kept = "they are equal again later, as where weights are averaged now and then on purpose"
            elif not in_step and _reduces_later(run, step, ranks):
                certainty = "possible"
                kept = (
                    "no collective runs in this step and some do later, as where weights are averaged now and then on "
                    "purpose"
                )
            reason = (
                f"{name} begins equal on ranks {', '.join(map(str, ranks))} and differs from step {step} on (rank "
                f"{rank}): replicas come apart; {kept}"
            )
            call = _call_of(run, rank, history)
            what = Finding(
                "", reason, certainty, step, rank, parameter=name, ranks=ranks, call=call and call.name,
                place=_place(run.of[step, rank], call),
            )  # fmt: skip
            found.append((history, what))
            break
        else:
            found += _begin_apart(roles, name)
            found += _frozen_apart(roles, name)
    found.sort(key=lambda pair: (pair[1].step or 0, pair[1].place))
    yield from per_module("replicas_apart", found)


def _beside(roles: Roles, in_step: list[str], ranks: tuple[int, ...], step: int) -> str:
    """Return in words what the other parameters do where one comes apart, and what that says of the cause."""
    if in_step:
        return f"other parameters stay equal there, such as {in_step[0]}"
    if roles.share_layers(ranks):
        return (
            "no parameter that these ranks share stays equal, and they compute parts of the same layers: one of them "
            "clips or scales its gradients alone (by the norm of its own part), or their gradients are not reduced "
            "over these ranks (but over none, or over those of another group)"
        )
    equal = _with_equal_gradients(roles, ranks, step)
    if equal:
        return (
            f"no parameter stays equal there, although gradients are, such as that of {equal}: a part of what is "
            "reduced is lost or changed on one rank, in a bucket, a hook, or a clipping"
        )
    return (
        "no parameter stays equal there: gradients are not reduced over these ranks (the model is called without its "
        "wrapper, the wrapper lost its hooks, or the last backward pass runs under no_sync)"
    )


def _with_equal_gradients(roles: Roles, ranks: tuple[int, ...], step: int) -> str | None:
    """Return a parameter of which all ranks get the same gradient in a step, and not by chance; None for none."""
    first, *others = (roles.run.of[step, rank] for rank in ranks if (step, rank) in roles.run.of)
    for name in first.parameters:
        own = gradient_of(first, name)
        if own and own[0].size > 1 and all(_are_equal(own, gradient_of(facts, name)) for facts in others):
            return name
    return None


def _reduces_later(run: RunFacts, step: int, ranks: tuple[int, ...]) -> bool:
    """Return whether no collective of these ranks carries more than a number in a step, and one does later."""
    later = any(_reduces(run, one, ranks) for one in run.steps if one > step)
    return later and not _reduces(run, step, ranks)


def _reduces(run: RunFacts, step: int, ranks: tuple[int, ...]) -> bool:
    """Return whether a collective of these ranks carries more than a number in a step."""
    every = (run.of[step, rank] for rank in ranks if (step, rank) in run.of)
    return any(tensor.size > 1 for facts in every for one in facts.collectives for tensor in one.given)


def _begin_apart(roles: Roles, name: str) -> Iterator[tuple[ParameterHistory, Finding]]:
    """Yield a parameter of which two ranks have other values from the beginning, although it gets the same gradients
    in every step. Ranks that share layers, or are stages, may hold parts of it."""
    own = {rank: parameters[name] for rank, parameters in roles.parameters.items() if name in parameters}
    for rank, other in pairwise(own):
        if roles.has_stages or roles.share_layers((rank, other)) or own[other].last.sharded or roles.is_expert(name):
            continue
        apart = own[rank].first_difference(own[other])
        every = [[gradient_of(facts, name) for facts in roles.run.rank(one)] for one in (rank, other)]
        pairs = [pair for pair in zip(*every, strict=False) if any(pair)]
        if apart is None or not pairs or not all(_are_equal(first, second) for first, second in pairs):
            continue
        step = apart[0][0]
        reason = (
            f"{name} has other values on rank {other} than on rank {rank} from step {step} on, and gets the same "
            f"gradients there in all {len(pairs)} steps: replicas do not begin equal (the broadcast or the checkpoint "
            "before the training did not reach a rank as a whole)"
        )
        yield own[other], _from_the_beginning(roles.run, own[other], reason, step, (rank, other))
        return


def _frozen_apart(roles: Roles, name: str) -> Iterator[tuple[ParameterHistory, Finding]]:
    """Yield a frozen parameter of which two ranks have other values from the beginning, where the parameter that it is
    a copy of, as that of a teacher, is a replica."""
    own = {rank: parameters[name] for rank, parameters in roles.parameters.items() if name in parameters}
    for rank, other in pairwise(own):
        states = [state for one in (rank, other) for _, state in own[one].states]
        if roles.has_stages or roles.share_layers((rank, other)) or roles.is_expert(name):
            continue
        if any(state.requires_grad or state.sharded for state in states):
            continue
        apart = own[rank].first_difference(own[other])
        begins = min(own[rank].moments, default=None)
        original = _original(roles, name, rank, other) if apart is not None and apart[0] == begins else None
        if apart is None or original is None:
            continue
        step = apart[0][0]
        reason = (
            f"{name} is frozen and has other values on rank {other} than on rank {rank} from step {step} on, and "
            f"{original}, which it seems to be a copy of, is equal there: the copy was made before the ranks got equal "
            "weights"
        )
        yield own[other], _from_the_beginning(roles.run, own[other], reason, step, (rank, other))
        return


def _from_the_beginning(
    run: RunFacts, history: ParameterHistory, reason: str, step: int, ranks: tuple[int, int]
) -> Finding:
    """Return the finding about a parameter that is another one on the second of two ranks."""
    call = _call_of(run, ranks[1], history)
    name = call.name if call is not None else None
    return Finding("", reason, "likely", step, ranks[1], parameter=history.name, ranks=ranks, call=name)


def _original(roles: Roles, name: str, rank: int, other: int) -> str | None:
    """Return the trained parameter of the same shape, and of the same name but for its first part, that begins equal on
    two ranks."""
    tail = name.partition(".")[2]
    shape = roles.parameters[rank][name].values()[0][1].shape
    for found, history in roles.parameters[rank].items():
        if found == name or not tail or found.partition(".")[2] != tail or not history.requires_grad:
            continue
        values = history.values()
        if (
            values
            and values[0][1].shape == shape
            and any({rank, other} <= set(one) for one in roles.begin_equal(found))
        ):
            return found
    return None


def _are_equal(gradients: list[Tensor], others: list[Tensor]) -> bool:
    """Return whether the gradients of one step are the same on two ranks, and not zero."""
    if len(gradients) != len(others):
        return False
    pairs = list(zip(gradients, others, strict=True))
    return bool(pairs) and all(one.norm > 0.0 and one.shape == two.shape and not differ(one, two) for one, two in pairs)


def _of_gradients(run: RunFacts, name: str, ranks: tuple[int, ...], step: int) -> str:
    """Return whether the gradients that optimizers get differ too, in words."""
    steps = [run.of[step, rank] for rank in ranks if (step, rank) in run.of]
    if len({bool(facts.updates) for facts in steps}) > 1:
        return "; an optimizer steps on some of these ranks only"
    every = [gradient_of(facts, name) for facts in steps]
    if not every or not all(every):
        return ""
    if any(differ(gradients[0], every[0][0]) for gradients in every):
        return "; its gradients differ already when the optimizer gets them"
    known = any(update.gradients and name in update.gradients for update in run.of[step, ranks[0]].updates)
    return f"; {'the optimizer gets' if known else 'the backward pass brings'} equal gradients for it"


def buffers_apart(run: RunFacts) -> Iterator[Finding]:
    """Yield running statistics of batch norms that replicas begin with in common and that differ later."""
    roles = Roles(run)
    kept: dict[tuple[str, str], dict[int, list[tuple[int, Tensor]]]] = {}
    for facts in run.every():
        for one in facts.batch:
            if ".batch_norm." in one.consumer and one.consumer.endswith((".input.1", ".input.2")):
                kept.setdefault((one.module, one.consumer), {}).setdefault(facts.rank, []).append((
                    facts.step,
                    one.value,
                ))
    for (module, consumer), by_rank in kept.items():
        ranks = tuple(by_rank)
        if len(ranks) < 2 or roles.has_stages or roles.share_layers(ranks) or not _holds_replicas(roles, ranks[:2]):
            continue
        first, other = by_rank[ranks[0]], by_rank[ranks[1]]
        apart = next((step for (step, one), (_, two) in zip(first, other, strict=False) if differ(one, two)), None)
        if apart is not None:
            reason = (
                f"the running statistics of {module} differ on ranks {ranks[0]} and {ranks[1]} in step {apart}: each "
                "rank normalises in evaluation by its own (broadcast_buffers is off, or the module is outside of its "
                "wrapper)"
            )
            yield Finding("buffers_apart", reason, "possible", apart, ranks[1], module or None, call=_entry(consumer))
            return


def _call_of(run: RunFacts, rank: int, history: ParameterHistory) -> ModuleCall | None:
    path = history.last.module
    calls = (call for facts in run.rank(rank) for call in facts.modules if call.path == path)
    return next(calls, None) if path else None


def _place(facts: StepFacts, call: ModuleCall | None) -> int:
    """Return where a parameter that came apart stands among the findings of its step: after those of calls, and before
    the parameters of earlier calls, whose gradients may differ only because of it."""
    return 2 * facts.entries - (call.place if call is not None else 0)


def _is_replica(roles: Roles, history: ParameterHistory, ranks: tuple[int, ...]) -> bool:
    """Return whether the role of the ranks says that they hold the same parameter."""
    first = history.values()[0][1]
    if history.last.sharded or roles.is_expert(history.name):
        return False
    if roles.has_stages and not roles.same_inputs(history.last.module, ranks):
        return False  # stages number their layers anew
    if not roles.share_layers(ranks):
        return not first.is_constant or _shares_varied(roles, ranks)
    # ranks that share layers begin equal with the constants of a bias that is cut, too
    siblings = [
        other
        for name, other in roles.parameters[ranks[0]].items()
        if name.rpartition(".")[0] == history.name.rpartition(".")[0] and name != history.name
    ]
    if any(ranks not in roles.begin_equal(other.name) for other in siblings):
        return False
    return not first.is_constant or bool(NORMS.search(history.last.kind))


def _shares_varied(roles: Roles, ranks: tuple[int, ...]) -> bool:
    """Return whether ranks begin with another parameter in common that is no constant, or have none at all: ones and
    zeros are what models of other seeds begin with, too."""
    own = (name for name in roles.parameters[ranks[0]] if all(name in roles.parameters[rank] for rank in ranks))
    varied = [name for name in own if (values := roles.parameters[ranks[0]][name].values())
              and not values[0][1].is_constant]  # fmt: skip
    return not varied or any(set(ranks) <= set(group) for name in varied for group in roles.begin_equal(name))


def _certainty(roles: Roles, history: ParameterHistory, in_step: list[str]) -> Certainty:
    if in_step:
        return "certain"
    return "possible" if roles.has_stages or roles.expert_paths else "likely"


def tied_apart(run: RunFacts) -> Iterator[Finding]:
    """Yield names that are one tensor in an earlier step, and an embedding and a head that begin equal; both come
    apart."""
    for before, after in (pair for _, steps in run.by_rank() for pair in pairwise(steps)):
        later = [set(group) for group in after.shared]
        for group in before.shared if after.parameters else ():
            if not any(set(group) <= names for names in later):
                reason = (
                    f"{' and '.join(group)} are one tensor in step {before.step} and no longer in step {after.step}: "
                    "tied weights came apart (one of them was replaced, moved or wrapped by itself)"
                )
                yield Finding("tied_weights_apart", reason, "certain", after.step, after.rank, parameter=group[-1])
    yield from _copies_apart(run)


def _copies_apart(run: RunFacts) -> Iterator[Finding]:
    """Yield an embedding and a head with equal values in the first step, which differ later."""
    every = [
        (rank, history)
        for rank, steps in run.by_rank()
        for history in histories(steps).values()
        if len(history.values()) > 1 and len(history.values()[0][1].shape) == 2
    ]
    embeddings = [(rank, one) for rank, one in every if one.last.kind in _EMBEDDINGS]
    heads = [(rank, one) for rank, one in every if one.last.kind not in _EMBEDDINGS]
    for rank, embedding in embeddings:
        first = embedding.values()[0][1]
        for other_rank, head in heads:
            own = head.values()[0][1]
            if own.key != first.key or first.is_constant:
                continue
            step = _first_difference(embedding, head)
            if step is None:
                continue
            where = "" if rank == other_rank else f" (rank {rank} and rank {other_rank})"
            reason = (
                f"{embedding.name} and {head.name}{where} begin with the same values and differ from step {step} on: "
                "tied weights come apart, as only one of them gets the other's gradient or neither does (unless one "
                "only begins as a copy of the other)"
            )
            yield Finding("tied_weights_apart", reason, "likely", step, other_rank, parameter=head.name,
                          module=head.last.module or None, ranks=tuple(sorted({rank, other_rank})))  # fmt: skip
            return


def _first_difference(one: ParameterHistory, other: ParameterHistory) -> int | None:
    found = one.first_difference(other)
    return None if found is None else found[0][0]


def same_data(run: RunFacts) -> Iterator[Finding]:
    """Yield ranks that hold replicas of the model and get the same data in every step."""
    roles = Roles(run)
    if roles.has_stages:
        return
    for number, rank in enumerate(run.ranks):
        for other in run.ranks[number + 1 :]:
            pair = (rank, other)
            trained = all(any(facts.has_backward for facts in run.rank(one)) for one in pair)
            if not trained or roles.share_layers(pair) or not _holds_replicas(roles, pair):
                continue
            batches = [(_data(run.of[step, rank]), _data(run.of[step, other])) for step in run.steps
                       if (step, rank) in run.of and (step, other) in run.of]  # fmt: skip
            if not batches or any(not own or own.keys() != theirs.keys() for own, theirs in batches):
                continue
            if any(own[key].key != theirs[key].key for own, theirs in batches for key in own):
                continue
            moving = len(batches) > 1 and any(
                len({own[key].key for own, _ in batches if key in own}) > 1 for key in batches[0][0]
            )
            name, value = next(iter(batches[0][0].items()))
            reason = (
                f"ranks {rank} and {other} hold replicas of the model and get the same data in all {len(batches)} "
                f"steps (such as {name}, shape {list(value.shape)}): the data are not divided among ranks (no "
                "distributed sampler, or the same seed everywhere)"
            )
            certainty: Certainty = "likely" if moving else "possible"
            yield Finding("same_data_on_ranks", reason, certainty, run.steps[0], other, call=_entry(name), ranks=pair)
            return


def _entry(consumer: str) -> str:
    return consumer.split(".input", 1)[0]


def _data(facts: StepFacts) -> dict[str, Tensor]:
    """Return the tensors that no call made and that are no constants."""
    return {one.consumer: one.value for one in facts.batch if not one.value.is_constant and one.value.is_measured}


def _holds_replicas(roles: Roles, ranks: tuple[int, ...]) -> bool:
    """Return whether two ranks begin with the same parameters, at least one of which is no constant."""
    own = roles.parameters[ranks[0]]
    begins = {
        name: history.values()[0][1] for name, history in own.items() if history.values() and not roles.is_expert(name)
    }
    varied = [name for name, value in begins.items() if not value.is_constant]
    return bool(varied) and all(any(set(ranks) <= set(group) for group in roles.begin_equal(name)) for name in varied)


RULES = (
    Rule(
        "replicas_apart",
        "replicas",
        "A parameter of which several ranks hold replicas has the same value on all of them.",
        (PARAMETERS, RANKS),
        "certain",
        "Look at which ranks reduce its gradient: a module outside of the wrapper, clipping on one rank alone, a sum "
        "over another group.",
        of_run=replicas_apart,
    ),
    Rule(
        "buffers_apart",
        "replicas",
        "Running statistics of replicas are equal on all of them.",
        (PARAMETERS, RANKS, CALLS),
        "possible",
        "Use SyncBatchNorm or broadcast_buffers, or average them before an evaluation.",
        of_run=buffers_apart,
    ),
    Rule(
        "tied_weights_apart",
        "replicas",
        "Weights that are tied stay one value.",
        (PARAMETERS, STEPS),
        "certain",
        "Tie them again after moving, wrapping or loading; reduce the gradients of both copies over their ranks.",
        of_run=tied_apart,
    ),
    Rule(
        "same_data_on_ranks",
        "replicas",
        "Ranks that hold replicas of the model get different data; ranks that share layers get the same.",
        (PARAMETERS, RANKS, CALLS, BACKWARD),
        "likely",
        "Use a distributed sampler and call its set_epoch; seed the data differently on each rank.",
        of_run=same_data,
    ),
)
