"""What an operator is, stated once: its signature, its definition, its checks, and what follows without its kernels."""
