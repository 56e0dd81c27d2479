"""``Model.train`` with our callbacks: one step of the dump for each step of the training."""

from __future__ import annotations

import mindspore.dataset
import numpy as np
from mindspore import nn
from mindspore.train import Model

from tests.adapters.bench import Bench


def test_every_step_of_model_train_is_recorded(bench: Bench) -> None:
    from msprobe.mindspore.common.utils import MsprobeStep as FromTheOlderPath

    from msprobe.mindspore import MsprobeInitStep, MsprobeStep

    assert FromTheOlderPath is MsprobeStep
    net = nn.SequentialCell(nn.Dense(4, 2))
    columns = np.ones((6, 4), np.float32), np.ones((6, 2), np.float32)
    data = mindspore.dataset.NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(2)
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=nn.SGD(net.trainable_params(), 0.1))
    callbacks = [MsprobeInitStep(), MsprobeStep(bench.open("mix"))]
    model.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    for step in range(3):
        names = bench.read(step).names("Cell.0.Dense")
        assert names == [
            "Cell.0.Dense.forward.0",
            "Cell.0.Dense.backward.0",
            "Cell.0.Dense.parameters_grad.0",
        ]
