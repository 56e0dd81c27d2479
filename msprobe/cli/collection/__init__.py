"""Commands around a recording: before it, during it, and what a runtime has recorded by itself."""
