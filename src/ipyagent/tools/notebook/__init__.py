"""Tools for notebooks: the kernel's own, other open ones, and closed ones."""
