"""Commands that compare two or more runs by tables and verdicts."""
