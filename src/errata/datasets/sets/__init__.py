"""One file per dataset of the benchmark. Each defines a `DATASET`; adding a file adds a dataset.

A file describes where the data comes from, how it is read and prepared, and the settings of the benchmark.
Imported by `errata.datasets.registry` only, which finds the files by itself. Imports the rest of `errata.datasets`.
"""
