"""Seeds, deterministic kernels, and the trace of random calls."""
