"""Save weights that a program and its pair begin with: ``save_weights.py PROGRAM checkpoint|state``, into this folder.

They are those of the model that ``build()`` of the program returns, with other values: so no two layers are alike, and
no bias is zero.
"""

import contextlib
import os
import runpy
import sys

import torch


def main() -> None:
    """Write ``checkpoint/`` (``save_pretrained``) or ``weights.pt`` (``state_dict``), in one step."""
    program, how = sys.argv[1:]
    build = runpy.run_path(program, run_name="program")["build"]
    torch.manual_seed(0)
    model = build()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim <= 1:
                parameter.add_(noise * 0.1)
            else:
                parameter.copy_(noise * (0.9 / parameter[0].numel() ** 0.5))
    name = "checkpoint" if how == "checkpoint" else "weights.pt"
    mine = f"{os.getpid()}-{name}"
    if how != "checkpoint":
        torch.save({key: value.clone() for key, value in model.state_dict().items()}, mine)
    else:
        try:
            model.save_pretrained(mine, safe_serialization=True)
        except RuntimeError:  # of tied weights, in old versions
            model.save_pretrained(mine, safe_serialization=False)
    with contextlib.suppress(OSError):  # another process has made the same
        os.rename(mine, name)


main()
