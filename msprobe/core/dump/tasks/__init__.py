"""Tasks that judge calls while they run."""
