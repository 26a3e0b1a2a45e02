"""``python -m attnforge`` is the command line."""

from attnforge.cli import main

if __name__ == "__main__":
    main()
