"""The hooks by which a training of MindSpore is watched, in dynamic graphs."""
