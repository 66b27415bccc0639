"""Draws stored results. Every figure comes with its numbers.

`gallery` lists all figures; the other modules compute the numbers and draw. Imports `errata.bench.evaluation`.
Imported by `errata.bench.results_page` and `errata.cli`.
"""
