"""The set-up of a training: what was installed, set and fed in. Collected on one side, compared with another."""
