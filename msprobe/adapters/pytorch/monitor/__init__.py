"""The hooks by which a training of PyTorch is watched."""
