"""``python -m fuser.cli``."""

from fuser.cli.app import main

if __name__ == "__main__":
    main()
