"""``python -m thali.cli`` is the command ``thali``."""

from thali.cli import main

main()
