"""CUDA source of the recurrence, read as text at first use on a GPU."""
