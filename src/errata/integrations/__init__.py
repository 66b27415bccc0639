"""Recorders for other people's trainers: one file a framework, each imported only by those who have it."""
