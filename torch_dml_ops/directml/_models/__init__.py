"""Model files: what they consist of, and how they are read."""
