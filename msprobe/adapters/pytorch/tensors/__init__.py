"""Facts, statistics and files of PyTorch tensors."""
