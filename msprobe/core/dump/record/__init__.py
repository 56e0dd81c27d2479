"""From one observed call to one record."""
