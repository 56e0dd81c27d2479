"""Facts and statistics of MindSpore tensors."""
