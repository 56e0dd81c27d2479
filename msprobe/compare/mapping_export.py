"""A layer map as an editable file in the layer-mapping format: sections by class of the target, paths on both sides.

    TopLayer:
      net: module.net                 # confidence 0.93: ...
    Block:
      attention: self_attn            # confidence 0.98, 12 layers, the least sure is layers.3.attention: ...
    SelfAttention:
      qkv: q_proj + k_proj + v_proj   # fused, confidence 0.97, 12 layers: ...
      swapaxes: transpose             # function

A rule holds for every module of its class. Where two modules need different rules, these move up to the section of the
module around. Lists of layers become one rule when their numbers agree. Layers without a partner are in comments.
``function_rules`` gives the rules for function calls inside paired layers, where the two sides name them differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msprobe.compare.alignment.call_scope import Path, Scopes, scopes
from msprobe.compare.alignment.layer_map import DOUBTFUL, FusedPair, LayerMap, LayerPair
from msprobe.compare.alignment.layer_mapping import NO_PARTNER, PLUS, TOP
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.records.entries import entry_keys, is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*( \+ [A-Za-z_][A-Za-z0-9_.]*)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
Sections = dict[str, dict[str, str]]
"""By class of the target, or ``TopLayer``: left path to right path."""
_Rule = tuple[str, str, str]
"""Section, left side and right side."""
_HEAD = """\
# Layer map inferred from the two dumps. Left: target, right: golden run.
# Edit it and give it back with -lm FILE. Comments tell how sure each line is (0..1) and why.
"""


@dataclass(slots=True)
class _Line:
    """The right side of a rule, and the pairs that the rule is for."""

    right: str
    pairs: list[LayerPair] = field(default_factory=list)


_Sections = dict[str, dict[str, _Line]]
FusedRules = dict[str, dict[tuple[str, str], list[FusedPair]]]
"""By class of the target, or ``TopLayer``, and by both sides of the rule: the fused layers that it is for."""


def mapping_text(layer_map: LayerMap, functions: Sections | None = None) -> str:
    """Return a layer map as YAML; lines that a person should check are marked ``LOW``.

    Args:
        layer_map: the layer map.
        functions: rules for function calls (see ``function_rules``); a layer of the same name wins.
    """
    lines = [_HEAD]
    calls = functions or {}
    layers, fusions = _sections(layer_map), fused_rules(layer_map)
    for section in dict.fromkeys((*layers, *fusions, *calls)):
        rules = layers.get(section, {})
        lines.append(f"{_quoted(section)}:\n")
        lines += [f"  {_quoted(left)}: {_quoted(line.right)}  # {_note(line)}\n" for left, line in rules.items()]
        lines += [
            f"  {_quoted(left)}: {_quoted(right)}  # {_fused_note(pairs)}\n"
            for (left, right), pairs in fusions.get(section, {}).items()
        ]
        lines += [
            f"  {_quoted(left)}: {_quoted(right)}  # function\n"
            for left, right in calls.get(section, {}).items()
            if left not in rules
        ]
        lines.append("\n")
    lines += [f"# only in the target: {path}\n" for path in layer_map.target_only]
    lines += [f"# only in the golden run: {path}\n" for path in layer_map.golden_only]
    return "".join(lines)


def mapping_rules(layer_map: LayerMap) -> Sections:
    """Return the rules for layers."""
    return {
        section: {left: line.right for left, line in rules.items()} for section, rules in _sections(layer_map).items()
    }


def _sections(layer_map: LayerMap) -> _Sections:
    """Return the rules for layers by section."""
    pairs = [pair for pair in layer_map.pairs if pair.target and pair.golden]
    candidates = {pair.target: list(_layer_rules(layer_map, pair)) for pair in pairs}
    level = dict.fromkeys(candidates, 0)
    while clashes := _clashes(candidates, level):
        for path in clashes:
            level[path] += 1
    sections: _Sections = {TOP: {}}
    for pair in pairs:
        section, left, right = candidates[pair.target][level[pair.target]]
        sections.setdefault(section, {}).setdefault(left, _Line(right)).pairs.append(pair)
    _add_rules_without_partner(layer_map, sections)
    called = {pair.target for pair in layer_map.pairs} | set(layer_map.target_only)
    return {name: _without_numbers(rules, called) for name, rules in sections.items() if rules}


def _add_rules_without_partner(layer_map: LayerMap, sections: _Sections) -> None:
    """Add a rule for each layer without a partner that would pair with another layer, which has its name."""
    taken = {pair.golden for pair in layer_map.pairs} | {path for pair in layer_map.fused for path in pair.golden}
    for path in layer_map.target_only:
        above = path.rpartition(".")[0]
        while above and above not in layer_map.by_target:
            above = above.rpartition(".")[0]
        pair = layer_map.by_target.get(above)
        left = path[len(above) + 1 :] if pair is not None else path
        if (f"{pair.golden}.{left}" if pair is not None else path) in taken:
            section = pair.target_class if pair is not None else TOP
            sections.setdefault(section, {}).setdefault(left, _Line(NO_PARTNER))


def _layer_rules(layer_map: LayerMap, pair: LayerPair) -> Iterator[_Rule]:
    """Yield the pair as a rule of the section of each module around it, the nearest first and ``TopLayer`` last."""
    path = pair.target
    while path := path.rpartition(".")[0]:
        above = layer_map.by_target.get(path)
        if above is not None and above.target_class and pair.golden.startswith(f"{above.golden}."):
            yield above.target_class, pair.target[len(path) + 1 :], pair.golden[len(above.golden) + 1 :]
    yield TOP, pair.target, pair.golden


def _clashes(candidates: dict[str, list[_Rule]], level: dict[str, int]) -> list[str]:
    """Return the pairs whose rule contradicts that of another module of the same class, and that can still move up.

    Args:
        candidates: the rules of each pair, by path of the target.
        level: which of them is used.
    """
    rights: dict[tuple[str, str], set[str]] = {}
    for path, rules in candidates.items():
        section, left, right = rules[level[path]]
        rights.setdefault((section, left), set()).add(right)
    return [
        path
        for path, rules in candidates.items()
        if level[path] + 1 < len(rules) and len(rights[rules[level[path]][:2]]) > 1
    ]


def _without_numbers(rules: dict[str, _Line], called: set[str]) -> dict[str, _Line]:
    """Return the rules with lists of layers as one rule: ``layers: blocks`` for ``layers.0: blocks.0`` and
    ``layers.1: blocks.1``, where ``layers`` is no module itself."""
    heads: dict[str, set[str | None]] = {}
    for left, line in rules.items():
        if (split := _split_at_number(left)) is not None:
            head, tail = split
            fits = line.right.endswith(f".{tail}") and not _is_module_path(head, left, line, called)
            heads.setdefault(head, set()).add(line.right[: -len(tail) - 1] if fits else None)
    merged: dict[str, _Line] = {}
    for left, line in rules.items():
        split = _split_at_number(left)
        rights = heads[split[0]] if split is not None else {None}
        (right,) = rights if len(rights) == 1 else (None,)
        if split is None or right is None:
            merged[left] = line
        else:
            merged.setdefault(split[0], _Line(right)).pairs.extend(line.pairs)
    return merged


def _split_at_number(left: str) -> tuple[str, str] | None:
    """Return a path before its first number, and from there on; None where it has none, or begins with one."""
    parts = left.split(".")
    index = next((index for index, part in enumerate(parts) if part.isdigit()), 0)
    return (".".join(parts[:index]), ".".join(parts[index:])) if index else None


def _is_module_path(head: str, left: str, line: _Line, called: set[str]) -> bool:
    """Return whether a list of layers is a module itself, of any of the pairs."""
    cut = len(left) - len(head)
    return any(pair.target[:-cut] in called for pair in line.pairs)


def _note(line: _Line) -> str:
    """Return the comment on a rule."""
    if not line.pairs:
        return "has no partner; the layer of this name is another one"
    worst = min(line.pairs, key=lambda pair: pair.confidence)
    mark = "LOW, " if worst.confidence < DOUBTFUL else ""
    if len(line.pairs) == 1:
        return f"{mark}confidence {worst.confidence:.2f}: {'; '.join(worst.evidence)}"
    least = "" if worst.confidence == 1.0 else f", the least sure is {worst.target}"
    return f"{mark}confidence {worst.confidence:.2f}, {len(line.pairs)} layers{least}: {'; '.join(worst.evidence)}"


def _fused_note(pairs: list[FusedPair]) -> str:
    worst = min(pairs, key=lambda pair: pair.confidence)
    count = f", {len(pairs)} layers" if len(pairs) > 1 else ""
    return f"fused, confidence {worst.confidence:.2f}{count}: {'; '.join(worst.evidence)}"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return "'" + text.replace("'", "''") + "'"


def fused_rules(layer_map: LayerMap) -> FusedRules:
    """Return the rules for fused layers, equal ones as one rule; a rule that would not hold for another module of its
    class has the whole paths."""
    nearest = [_fused_rule(layer_map, pair) for pair in layer_map.fused]
    rights: dict[tuple[str, str], set[str]] = {}
    for section, left, right in nearest:
        rights.setdefault((section, left), set()).add(right)
    rules: FusedRules = {}
    for pair, rule in zip(layer_map.fused, nearest, strict=True):
        section, left, right = rule if len(rights[rule[:2]]) == 1 else _rule_of_whole_paths(pair)
        rules.setdefault(section, {}).setdefault((left, right), []).append(pair)
    return rules


def _fused_rule(layer_map: LayerMap, pair: FusedPair) -> _Rule:
    """Return the fused layers as a rule of the nearest paired module around them; with whole paths where none is."""
    path = pair.target[0]
    while path := path.rpartition(".")[0]:
        above = layer_map.by_target.get(path)
        if above is not None and above.target_class and above.golden:
            left, right = _below(path, pair.target), _below(above.golden, pair.golden)
            if left and right:
                return above.target_class, left, right
    return _rule_of_whole_paths(pair)


def _rule_of_whole_paths(pair: FusedPair) -> _Rule:
    return TOP, PLUS.join(pair.target), PLUS.join(pair.golden)


def _below(above: str, paths: Sequence[str]) -> str:
    """Return the paths below that of the module around them; "" when it is not around all of them."""
    if not all(path.startswith(f"{above}.") for path in paths):
        return ""
    return PLUS.join(path[len(above) + 1 :] for path in paths)


def function_rules(layer_map: LayerMap, table: LeafTable, target: Dump, golden: Dump) -> Sections:
    """Return the rules that pair functions as the table does.

    No rule can say that calls of one name pair with calls of several names; then the most frequent pair is the rule.
    """
    target_paths, golden_paths = _EntryPaths(target), _EntryPaths(golden)
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for pair, key in zip(table.entries, table.keys, strict=True):
        if pair.target is None or pair.golden is None or is_module(key) or key.phase != "forward":
            continue
        paths = target_paths.paths[pair.target], golden_paths.paths[pair.golden]
        rule = _function_rule(layer_map, target_paths, paths)
        if rule is not None:
            section, left, right = rule
            rights = counts.setdefault((section, left), {})
            rights[right] = rights.get(right, 0) + 1
    rules: Sections = {}
    for (section, left), rights in counts.items():
        right = max(rights, key=lambda name: rights[name])
        if right != left:
            rules.setdefault(section, {})[left] = right
    return rules


class _EntryPaths:
    """The paths of all entries of a dump, by their names."""

    def __init__(self, dump: Dump) -> None:
        keys = entry_keys(dump.data, dump.construct)
        self.scopes: Scopes = scopes(Side(dump, keys))
        self.paths: dict[str, Path] = {key.name: path for key, path in zip(keys, self.scopes.paths, strict=True)}


def _function_rule(layer_map: LayerMap, target: _EntryPaths, paths: tuple[Path, Path]) -> _Rule | None:
    """Return two paired calls as a rule of the nearest paired layer around both; None where there is no such layer."""
    left, right = paths
    for depth in range(len(left) - 1, 0, -1):
        pair = layer_map.by_target.get(".".join(left[:depth]))
        if pair is None:
            continue
        above = tuple(pair.golden.split("."))
        cls = target.scopes.classes.get(left[:depth])
        if cls is None or right[: len(above)] != above or len(right) <= len(above):
            return None
        return cls, ".".join(left[depth:]), ".".join(right[len(above) :])
    return (TOP, ".".join(left), ".".join(right)) if len(left) == 1 else None
