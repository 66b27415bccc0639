"""From anybody's labelled data to a ranked, readable list of label errors."""
