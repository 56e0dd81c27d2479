"""The configurations of the monitor, each turned into one ``MonitorPlan``."""
