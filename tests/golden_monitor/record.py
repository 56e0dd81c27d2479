"""Record what the published monitor writes: ``python record.py PYTHON`` (with mindstudio-probe 26.2.0 and torch)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.golden_monitor.cells import texts_below  # noqa: E402


def main(python: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for config in sorted((HERE / "configs").glob("*.json")):
        with tempfile.TemporaryDirectory() as folder:
            launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if config.stem == "ranks" else []
            target = Path(folder, "out")
            words = [python, *launch, str(HERE / "programs.py"), config.stem, str(target)]
            subprocess.run(words, env={**environment, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
            texts = texts_below(target)
        (HERE / "recorded" / f"{config.stem}.json").write_text(json.dumps(texts, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
