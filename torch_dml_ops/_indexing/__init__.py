"""NumPy's indexing, by windows."""
