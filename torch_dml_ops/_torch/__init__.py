"""What is asked of torch: private names, the two ways of a call, and derivatives."""
