"""One file per family of file types. Adding a file adds file types.

Each file has a dictionary `TABLE_READERS` or `ARRAY_READERS` from suffixes to functions.
Imported by `errata.readers.file_types`, which finds the files by itself, and by the writers of `errata.review`.
Imports the rest of `errata.readers`.
"""
