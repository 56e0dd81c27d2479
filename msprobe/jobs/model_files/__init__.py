"""Model files run and compared: a job of its own folder, as it runs two programs and reads a dump."""
