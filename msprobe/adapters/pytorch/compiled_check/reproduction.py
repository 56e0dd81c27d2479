"""A script that shows a wrong node in a process of its own: the graph as torch writes it, its inputs beside it.

The script needs torch alone. Settings of Dynamo and inductor that are not the usual ones stand in it, as in the scripts
of torch's own minifier.
"""

from __future__ import annotations

import io
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch._dynamo.debug_utils import NNModuleToString, generate_config_string

from msprobe import __version__
from msprobe.adapters.pytorch.compiled_check.backends import NamedBackend, eager_random, named_backend
from msprobe.adapters.pytorch.compiled_check.tensor_diff import allowed_error
from msprobe.adapters.pytorch.compiled_check.wrong_node import WrongNode
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.store.safe_files import make_folder, write_atomic

_TEMPLATE = Path(__file__).with_name("reproduction.py.txt")


def write_reproduction(node: WrongNode, path: Path) -> str:
    """Write the script and its tensors; return why it was not written, or "".

    Args:
        node: the wrong node.
        path: the script; the tensors go beside it, into a file ``.pt``.

    Raises:
        OSError: a file cannot be written.
    """
    backend = named_backend(node.backend)
    if backend is None:
        return "the back end is a function of this program; a script can use one with a name (register_backend)"
    try:
        text, tensors = _text(node, backend, path), _tensors(node)
    except Exception as error:  # noqa: BLE001 - whatever torch raises where it cannot write a graph down
        let_through(error)
        return f"torch cannot write the graph down: {error_text(error)}"
    make_folder(path.parent)
    write_atomic(path.with_suffix(".pt"), [tensors])
    write_atomic(path, [text.encode("utf-8", "backslashreplace")])
    return ""


def _text(node: WrongNode, backend: NamedBackend, path: Path) -> str:
    with eager_random(backend.name):
        settings = generate_config_string()
    title, source, reason = (_one_line(text) for text in node.words)
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=title,
        source=source or "not known",
        reason=reason,
        version=__version__,
        torch=torch.__version__,
        file=path.name,
        settings=settings.strip(),
        graph=NNModuleToString.convert(node.called.graph).strip(),
        tensors=path.with_suffix(".pt").name,
        backend=repr(backend.name),
        options=repr(backend.options or None),
    )


def _tensors(node: WrongNode) -> bytes:
    """Return inputs, results in float64 and allowed differences as a file of torch."""
    results = node.called.results()
    exact = node.called.exact_results() or [None] * len(results)
    content = {
        "inputs": [one.cpu() if isinstance(one, torch.Tensor) else one for one in node.called.inputs],
        "devices": [str(one.device) if isinstance(one, torch.Tensor) else "" for one in node.called.inputs],
        "exact": [one.cpu() if isinstance(one, torch.Tensor) else None for one in exact],
        "allowed": [_allowed(one, other) for one, other in zip(results, exact, strict=True)],
    }
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def _allowed(eager: Any, exact: Any) -> tuple[float, float]:
    if not isinstance(eager, torch.Tensor):
        return 0.0, 0.0
    allowed = allowed_error(eager, exact if isinstance(exact, torch.Tensor) else None)
    return allowed.element, allowed.norm


def _one_line(text: Any) -> str:
    return " ".join(str(text).replace("\\", "/").replace('"', "'").split())
