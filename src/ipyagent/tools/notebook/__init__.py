"""Tools for notebooks: that of the kernel, others that are open, and closed ones."""
