"""One rank of the case ``ranks``: ``python -m tests.golden_monitor.run_rank RANK STORE FOLDER``."""

import sys
from pathlib import Path

from torch import distributed

from tests.golden_monitor import programs

rank, store, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
programs.distributed.init_process_group = lambda backend: None
programs.main("ranks", folder)
