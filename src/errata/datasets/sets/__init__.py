"""The datasets, one file each: every module here defines a `DATASET`."""
