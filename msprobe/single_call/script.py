"""The text of a script for one call, and the inputs beside it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe import __version__
from msprobe.core.backend.replaying import CannotReplayError, HeldTensor, PreparedCall, Replayer
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.replay.cases import Case, prepare
from msprobe.replay.judged_call import draws_random_numbers
from msprobe.single_call.literals import dtype_literal, literal
from msprobe.single_call.request import ScriptRequest

TEMPLATES: Mapping[str, str] = {"pytorch": "torch", "mindspore": "mindspore"}
"""Framework of a dump -> the module that a script imports; its template is ``MODULE_script.py.j2``."""
_NOT_IN_A_NAME = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor of the script: its key among the inputs, its literal values where the script draws them."""

    key: str
    held: HeldTensor

    @property
    def drawing(self) -> str:
        """Return the arguments of ``drawn`` of the script: shape, Min, Max, mean and standard deviation."""
        values = self.held.values
        finite = values[np.isfinite(values)] if values.dtype.kind in "fc" else values
        if values.dtype.kind == "c":
            finite = finite.real
        figures = (0, 0, 0, 0) if not finite.size else (finite.min(), finite.max(), finite.mean(), finite.std())
        low, high, mean, deviation = (float(figure) for figure in figures)
        known = find_dtype(self.held.dtype)
        whole = known is not None and known.kind in (DtypeKind.INT, DtypeKind.BOOL)
        shape = tuple(int(length) for length in values.shape)
        return f"random, {shape!r}, {low!r}, {high!r}, {mean!r}, {deviation!r}" + (", whole=True" if whole else "")


def write_script(case: Case, framework: str, replayer: Replayer, request: ScriptRequest, folder: Path) -> Path:
    """Write the script for a call, and its inputs where they are recorded ones.

    Args:
        case: the recorded call.
        framework: the framework of the dump.
        replayer: what knows the function.
        request: what is asked for.
        folder: where the files go.

    Raises:
        CannotReplayError: the record does not hold the call, or no script can name it.
        OSError: a file cannot be written.
    """
    if framework not in TEMPLATES:
        raise CannotReplayError(f"scripts are written for {' and '.join(TEMPLATES)}, not for {framework}")
    if request.backward and case.backward is None:
        raise CannotReplayError("the dump has no backward record of this call")
    call = prepare(case, request.seed)
    call = replace(call, gradients=list(call.gradients) if request.backward else [])
    tensors = [_Tensor(f"t{number}", held) for number, held in enumerate(_tensors(call))]
    text = _text(case, TEMPLATES[framework], replayer, request, (call, tensors))
    path = folder / _file_name(case, request)
    make_folder(folder)
    if request.real:
        write_atomic(path.with_suffix(".npz"), [_packed({each.key: each.held.values for each in tensors})])
    write_atomic(path, [text.encode("utf-8", "backslashreplace")])
    return path


def _tensors(call: PreparedCall) -> Iterator[HeldTensor]:
    yield from call.tensors()
    yield from (gradient for gradient in call.gradients if gradient is not None)


def _text(
    case: Case, module: str, replayer: Replayer, request: ScriptRequest, parts: tuple[PreparedCall, list[_Tensor]]
) -> str:
    import jinja2

    call, tensors = parts
    keys = iter(each.key for each in tensors)

    def tensor(held: HeldTensor) -> str:
        return f"tensor({next(keys)!r}, {dtype_literal(held.dtype, module)}, {held.requires_grad and request.backward})"

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    settings: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    template = jinja2.Environment(loader=loader, autoescape=False, **settings).get_template(f"{module}_script.py.j2")
    text: str = template.render(
        version=__version__,
        call=repr(f"{case.name}.{'backward' if request.backward else 'forward'}"),
        function=replayer.expression(
            call,
            ", ".join(
                f"{name}={literal(each, tensor, module)}"
                for name, each in (call.attributes or {}).items()
                if name.isidentifier()
            ),
        ),
        args=literal(list(call.args), tensor, module),
        kwargs=literal(dict(call.kwargs), tensor, module),
        gradients=[None if gradient is None else tensor(gradient) for gradient in call.gradients],
        random=draws_random_numbers(call, replayer),
        drawn=[] if request.real else tensors,
        runs=1 if request.real else request.runs,
        seed=request.seed,
        pytest=request.pytest,
    )
    return text


def _file_name(case: Case, request: ScriptRequest) -> str:
    name = f"{case.name}.{'backward' if request.backward else 'forward'}"
    return f"test_{_NOT_IN_A_NAME.sub('_', name)}.py" if request.pytest else file_name(name, ".py")


def _packed(values: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(values))
    return buffer.getvalue()
