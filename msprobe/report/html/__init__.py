"""The report for people: one HTML file with everything in it."""
