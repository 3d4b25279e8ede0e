"""What is asked of torch: the compiled libraries, private names, the two ways of a call, and derivatives."""
