"""Train a model and gather its dynamics; torch lives here and only here."""
