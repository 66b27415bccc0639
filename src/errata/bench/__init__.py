"""The benchmark: the paper's settings, run and evaluated.

`plan`, `results`, `tuning_results`, `packing`: which cells there are, and their files. `running` trains and scores.
`evaluation` makes tables and statistics, `figures` draws, `results_page` writes a page. Imported by `errata.cli`.
"""
