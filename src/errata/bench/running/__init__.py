"""Runs the benchmark: trains cells, scores them, tunes methods and searches recipes.

`benchmark_run` and `tuning_run` are campaigns; `campaign` is their common part. Imports `errata.bench.plan`,
`errata.bench.results` and `errata.training`, and nothing from evaluation or figures. Imported by `errata.cli` only.
"""
