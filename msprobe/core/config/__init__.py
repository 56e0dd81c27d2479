"""The configuration of a collection: one frozen model tree, loaded from JSON, YAML or a dict.

from msprobe.core.config import load_config
config = load_config("config.json", level="mix")
3 in config.step, config.section.scope
"""

from msprobe.core.config.fields import IntRanges
from msprobe.core.config.load import ConfigReport, ConfigSource, check_config, load_config
from msprobe.core.config.models import TASKS, DumpConfig, LoadConfig, TaskSpec
from msprobe.core.config.sections import Section

__all__ = [
    "TASKS",
    "ConfigReport",
    "ConfigSource",
    "DumpConfig",
    "IntRanges",
    "LoadConfig",
    "Section",
    "TaskSpec",
    "check_config",
    "load_config",
]
