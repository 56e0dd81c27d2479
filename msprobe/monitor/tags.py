"""Tags of a target, by which a viewer filters: (name, category) pairs made from the parts of its name.

=========  ===================================================================
index      the last two parts: ``input.0``, ``parameters.weight``
default    ``Module`` or ``Cell``; ``parameters``
layer      a part and the number behind it: ``layers.3``
module     each run of other parts of a module's name: ``mlp.Linear``
function   a function's name without its index: ``Functional.linear``
=========  ===================================================================
"""

from __future__ import annotations

from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.core.naming.parse import is_number

Tag = tuple[str, str]


def tags_of(target: str) -> list[Tag]:
    """Return the tags of a target such as ``Module.layers.3.mlp.Linear.input.0``, each once."""
    parts = target.split(".")
    tags = [(".".join(parts[-2:]), "index")]
    if "parameters" in parts:
        tags.append(("parameters", "default"))
    prefix, inner = parts[0], parts[1:-2]
    if prefix not in MODULE_PREFIXES:
        tags.append((".".join(parts[:-2]), "function"))
        return tags
    tags.append((prefix, "default"))
    return list(dict.fromkeys(tags + _inside(inner)))


def _inside(parts: list[str]) -> list[Tag]:
    """Return the layers and modules in the parts between prefix and index; a number after a number is ignored."""
    tags: list[Tag] = []
    run: list[str] = []
    for part in parts:
        if not is_number(part):
            run.append(part)
        elif run:
            *above, name = run
            tags += [*_module(above), (f"{name}.{part}", "layer")]
            run = []
    return tags + _module(run)


def _module(run: list[str]) -> list[Tag]:
    return [(".".join(run), "module")] if run else []
