"""What torch.compile makes of the operators."""
