"""Files of kernel dumps: converted, shown, compared."""
