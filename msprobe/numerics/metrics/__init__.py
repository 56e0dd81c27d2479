"""Pure functions from values to metrics; they read no file and log nothing."""
