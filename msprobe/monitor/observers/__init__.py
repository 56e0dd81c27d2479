"""What looks at the calls of modules in the first step that is measured, and writes down how the model is built."""
