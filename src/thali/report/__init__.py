"""A report about a posterior: one HTML file that needs neither a network nor other files."""

from thali.report.page import write

__all__ = ["write"]
