"""Pure mathematics on arrays: no torch at import, no files, no state."""
