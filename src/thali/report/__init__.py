"""The posterior as one page to share: a file that needs no network and no other file."""

from thali.report.page import write

__all__ = ["write"]
