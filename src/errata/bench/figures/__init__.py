"""Figures of the benchmark. Each is drawn from a table of numbers, which is kept beside it.

A module an idea: a function that takes its numbers from the results, and one that draws them. `gallery` has them all.
"""
