"""``python -m thali`` is the command ``thali``."""

from thali.cli import main

main()
