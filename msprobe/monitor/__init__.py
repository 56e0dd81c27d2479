"""Values followed over the steps of a training: the trend database of a dump."""
