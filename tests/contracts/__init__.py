"""One suite over every backend: what a framework's capabilities must do, whatever the framework."""
