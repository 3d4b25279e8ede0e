"""What an operator is, stated once: its record, its checks, and what follows from them without its kernels."""
