"""Evaluates stored results: metrics over seeds, tables, statistics, and the comparison with the published numbers.

It reads results and neither trains nor draws. Imported by `errata.bench.figures`, `errata.bench.results_page` and
`errata.cli`.
"""
