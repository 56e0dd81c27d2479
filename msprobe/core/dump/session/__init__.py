"""The life cycle of a recording: start, stop, step, reload, folders."""
