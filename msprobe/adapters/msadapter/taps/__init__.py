"""The torch-shaped namespaces of MSAdapter, observed with MindSpore's taps."""
