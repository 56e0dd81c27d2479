"""Two graphs: paired nodes and their verdicts."""
