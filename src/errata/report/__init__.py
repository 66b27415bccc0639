"""The review page: `write_report(ReportData, path)` writes one HTML file that works offline.

page: the dataclass with everything the page shows, the JSON for the scripts in static/, and the HTML file.
contents, table_contents, sample_details: what is shown of each sample, and its loss over the epochs.
Imports core, dynamics and readers only. errata.finding fills ReportData, and the server in errata.review
sends the same page.
"""

from errata.report.page import ReportData, write_report

__all__ = ["ReportData", "write_report"]
