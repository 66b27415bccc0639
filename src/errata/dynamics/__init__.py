"""Training dynamics: recording them, keeping them, and scoring them."""
