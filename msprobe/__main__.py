"""``python -m msprobe`` is the same as the ``msprobe`` command."""

from msprobe.cli.main import main

if __name__ == "__main__":
    main()
