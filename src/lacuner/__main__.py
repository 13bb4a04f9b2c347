"""``python -m lacuner``."""

from lacuner.cli import main

if __name__ == "__main__":  # worker processes that are new interpreters import this module, too
    main()
