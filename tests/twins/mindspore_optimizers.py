"""Optimizers of MindSpore: ``python -m tests.twins.mindspore_optimizers FOLDER NAME...``.

Records three steps of a small model below ``FOLDER/mindspore/LEVEL/NAME/VARIANT``; weights as in ``mindspore_layers``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

from tests.twins.kinds import CLEAN, CODE, OPTIMIZERS, STEPS, kinds, training_data
from tests.twins.mindspore_recording import record_steps, run


def _record(name: str, folder: Path) -> None:
    weights = dict(np.load(folder / "weights" / f"{name}.npz"))
    given, wanted = map(Tensor, training_data())
    for level in ("L0", "mix"):
        for variant in (CLEAN, CODE):
            model = nn.SequentialCell(nn.Dense(8, 6), nn.Sigmoid(), nn.Dense(6, 3))
            for path, parameter in model.parameters_and_names():
                parameter.set_data(Tensor(weights[path]))
            expression = kinds(OPTIMIZERS)[name].expression("mindspore", variant)
            optimizer = eval(expression, {"nn": nn, "mint": mint, "parameters": model.trainable_params()})

            def loss(given: Any, model: Any = model) -> Any:
                difference = model(given) - wanted
                return ops.mean(difference * difference)

            gradients_of = ms.value_and_grad(loss, None, model.trainable_params())

            def step(gradients_of: Any = gradients_of, optimizer: Any = optimizer) -> None:
                optimizer(gradients_of(given)[1])

            record_steps(folder / "mindspore" / level / name / variant, level, model, step, STEPS)


if __name__ == "__main__":
    run(_record)
