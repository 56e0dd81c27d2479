"""A script for one recorded call: short, readable, and without msprobe."""
