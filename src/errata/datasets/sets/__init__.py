"""One file per dataset. Each defines a `DATASET`; adding a file adds a dataset."""
