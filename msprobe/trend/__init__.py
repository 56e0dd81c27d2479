"""Statistics over steps and ranks as a database for trend viewers."""
