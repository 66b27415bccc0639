"""report.html: one file, read and reviewed in a browser without a network."""

from errata.report.writing import write_report

__all__ = ["write_report"]
