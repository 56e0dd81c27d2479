"""A layer map as an editable file in the layer-mapping format: sections by class of the target, paths on both sides.

    TopLayer:
      net: module.net                 # confidence 0.93: ...
    Block:
      attention: self_attn            # confidence 0.98, 12 layers, the least sure is layers.3.attention: ...
    SelfAttention:
      qkv: q_proj + k_proj + v_proj   # fused, confidence 0.97, 12 layers: ...

A rule holds for every module of its class; where two of them need different rules, the rules move up to the module
around them. Lists of layers become one rule when their numbers agree. Fused layers and layers without a partner stand
in comments.

Fused layers as rules of a layer mapping: ``qkv: q_proj + k_proj + v_proj``, below the class that holds them.

Rules of a layer mapping for the calls of functions inside paired layers, where the two sides name them differently.

SelfAttention:
  swapaxes: transpose
  BatchMatMul: matmul
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

FusedRules = dict[str, dict[tuple[str, str], list[FusedPair]]]
"""Class of the target, or ``TopLayer``, to left and right side, to the fused layers it stands for."""


def fused_rules(layer_map: LayerMap) -> FusedRules:
    """One rule for all fused layers that read alike; one that would not hold for another module of its class names the
    whole paths."""
    near = [next(_fused_layer_rules(layer_map, pair)) for pair in layer_map.fused]
    rights: dict[tuple[str, str], set[str]] = {}
    for section, left, right in near:
        rights.setdefault((section, left), set()).add(right)
    found: FusedRules = {}
    for pair, rule in zip(layer_map.fused, near, strict=True):
        section, left, right = rule if len(rights[rule[:2]]) == 1 else _whole(pair)
        found.setdefault(section, {}).setdefault((left, right), []).append(pair)
    return found


def _fused_layer_rules(layer_map: LayerMap, pair: FusedPair) -> Iterator[_Rule]:
    """How the pair reads in the section of each paired module around it, the nearest first, and with whole paths."""
    path = pair.target[0]
    while path := path.rpartition(".")[0]:
        above = layer_map.by_target.get(path)
        if above is not None and above.target_class and above.golden:
            left, right = _below(path, pair.target), _below(above.golden, pair.golden)
            if left and right:
                yield above.target_class, left, right
    yield _whole(pair)


def _whole(pair: FusedPair) -> _Rule:
    return TOP, PLUS.join(pair.target), PLUS.join(pair.golden)


def _below(above: str, paths: Sequence[str]) -> str:
    """The paths without that of the module around them; nothing when it is not around all of them."""
    if not all(path.startswith(f"{above}.") for path in paths):
        return ""
    return PLUS.join(path[len(above) + 1 :] for path in paths)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*( \+ [A-Za-z_][A-Za-z0-9_.]*)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
Sections = dict[str, dict[str, str]]
"""Class of the target, or ``TopLayer``, to left path to right path."""
_Rule = tuple[str, str, str]
_HEAD = """\
# Layer map inferred from the two dumps. Left: target, right: golden run.
# Edit it and give it back with -lm FILE. Comments tell how sure each line is (0..1) and why.
"""


@dataclass(slots=True)
class _Line:
    """One rule of a section and the pairs it stands for."""

    right: str
    pairs: list[LayerPair] = field(default_factory=list)


_Sections = dict[str, dict[str, _Line]]


def mapping_text(layer_map: LayerMap, functions: Sections | None = None) -> str:
    """The YAML text. Lines that a person should look at are marked ``LOW``.

    ``functions`` are rules for calls inside the layers, see ``function_rules``; a layer of the same name wins.
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
    """The rules for layers as a value."""
    return {
        section: {left: line.right for left, line in rules.items()} for section, rules in _sections(layer_map).items()
    }


def _sections(layer_map: LayerMap) -> _Sections:
    pairs = [pair for pair in layer_map.pairs if pair.target and pair.golden]
    around = {pair.target: list(_layer_rules(layer_map, pair)) for pair in pairs}
    level = dict.fromkeys(around, 0)
    while clashes := _clashes(around, level):
        for path in clashes:
            level[path] += 1
    sections: _Sections = {TOP: {}}
    for pair in pairs:
        section, left, right = around[pair.target][level[pair.target]]
        sections.setdefault(section, {}).setdefault(left, _Line(right)).pairs.append(pair)
    _keep_apart(layer_map, sections)
    called = {pair.target for pair in layer_map.pairs} | set(layer_map.target_only)
    return {name: _without_numbers(rules, called) for name, rules in sections.items() if rules}


def _keep_apart(layer_map: LayerMap, sections: _Sections) -> None:
    """Names for layers without a partner that would otherwise pair with a layer that happens to be called the same."""
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
    """How the pair reads in the section of each module around it, the nearest first and the top last."""
    path = pair.target
    while path := path.rpartition(".")[0]:
        above = layer_map.by_target.get(path)
        if above is not None and above.target_class and pair.golden.startswith(f"{above.golden}."):
            yield above.target_class, pair.target[len(path) + 1 :], pair.golden[len(above.golden) + 1 :]
    yield TOP, pair.target, pair.golden


def _clashes(around: dict[str, list[_Rule]], level: dict[str, int]) -> list[str]:
    """Pairs whose rule contradicts that of another module of the same class and that can still move up."""
    rights: dict[tuple[str, str], set[str]] = {}
    for path, rules in around.items():
        section, left, right = rules[level[path]]
        rights.setdefault((section, left), set()).add(right)
    return [
        path
        for path, rules in around.items()
        if level[path] + 1 < len(rules) and len(rights[rules[level[path]][:2]]) > 1
    ]


def _without_numbers(rules: dict[str, _Line], called: set[str]) -> dict[str, _Line]:
    """``layers.0: blocks.0`` and ``layers.1: blocks.1`` become ``layers: blocks``, a list that is no module itself."""
    heads: dict[str, set[str | None]] = {}
    for left, line in rules.items():
        if (split := _at_number(left)) is not None:
            head, tail = split
            fits = line.right.endswith(f".{tail}") and not _is_called(head, left, line, called)
            heads.setdefault(head, set()).add(line.right[: -len(tail) - 1] if fits else None)
    found: dict[str, _Line] = {}
    for left, line in rules.items():
        split = _at_number(left)
        rights = heads[split[0]] if split is not None else {None}
        (right,) = rights if len(rights) == 1 else (None,)
        if split is None or right is None:
            found[left] = line
        else:
            found.setdefault(split[0], _Line(right)).pairs.extend(line.pairs)
    return found


def _at_number(left: str) -> tuple[str, str] | None:
    parts = left.split(".")
    number = next((at for at, part in enumerate(parts) if part.isdigit()), 0)
    return (".".join(parts[:number]), ".".join(parts[number:])) if number else None


def _is_called(head: str, left: str, line: _Line, called: set[str]) -> bool:
    cut = len(left) - len(head)
    return any(pair.target[:-cut] in called for pair in line.pairs)


def _note(line: _Line) -> str:
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


def function_rules(layer_map: LayerMap, table: LeafTable, target: Dump, golden: Dump) -> Sections:
    """Rules that pair functions as the table does. Where calls of one name pair with several others, no rule can say
    it and the most frequent pair gives the rule."""
    ours, theirs = _Places(target), _Places(golden)
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for pair, key in zip(table.entries, table.keys, strict=True):
        if pair.target is None or pair.golden is None or is_module(key) or key.phase != "forward":
            continue
        rule = _rule(layer_map, ours, (ours.paths[pair.target], theirs.paths[pair.golden]))
        if rule is not None:
            section, left, right = rule
            rights = counted.setdefault((section, left), {})
            rights[right] = rights.get(right, 0) + 1
    found: Sections = {}
    for (section, left), rights in counted.items():
        right = max(rights, key=lambda name: rights[name])
        if right != left:
            found.setdefault(section, {})[left] = right
    return found


class _Places:
    """Where every entry of a dump stands, by its name."""

    def __init__(self, dump: Dump) -> None:
        keys = entry_keys(dump.data, dump.construct)
        self.scopes: Scopes = scopes(Side(dump, keys))
        self.paths: dict[str, Path] = {key.name: path for key, path in zip(keys, self.scopes.paths, strict=True)}


def _rule(layer_map: LayerMap, ours: _Places, paths: tuple[Path, Path]) -> tuple[str, str, str] | None:
    """The pair as a rule of the nearest paired layer around both calls."""
    left, right = paths
    for depth in range(len(left) - 1, 0, -1):
        pair = layer_map.by_target.get(".".join(left[:depth]))
        if pair is None:
            continue
        above = tuple(pair.golden.split("."))
        cls = ours.scopes.classes.get(left[:depth])
        if cls is None or right[: len(above)] != above or len(right) <= len(above):
            return None
        return cls, ".".join(left[depth:]), ".".join(right[len(above) :])
    return (TOP, ".".join(left), ".".join(right)) if len(left) == 1 else None
