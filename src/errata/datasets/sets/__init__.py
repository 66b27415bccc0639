"""The datasets of the benchmark. Each file defines a `DATASET`, or several `DATASETS`; adding a file adds them.

A file describes where the data comes from, how it is read and prepared, and the settings of the benchmark.
Imported by `errata.datasets.registry` only, which finds the files by itself. Imports the rest of `errata.datasets`.
"""
