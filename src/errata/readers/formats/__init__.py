"""One file per family of file types. Adding a file adds file types: see `errata.readers.file_types`."""
