"""``python -m lacuner``."""

from lacuner.cli import main

main()
