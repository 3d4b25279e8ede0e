"""What is wrong with an argument, in one sentence."""
