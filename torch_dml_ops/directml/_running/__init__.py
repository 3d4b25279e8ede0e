"""What running an operator needs besides itself."""
