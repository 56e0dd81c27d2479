"""Which values of a step deserve an alert."""
