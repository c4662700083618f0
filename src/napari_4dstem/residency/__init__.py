"""What memory there is, what we hold of it, and what an operation may still use."""
