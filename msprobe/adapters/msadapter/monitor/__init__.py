"""The hooks by which a training of a torch-shaped namespace over MindSpore is watched."""
