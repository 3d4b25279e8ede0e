"""What the descriptors of operators share, and their rules."""
