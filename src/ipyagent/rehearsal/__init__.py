"""Rehearsals: code runs on a copy of the kernel, where it can change nothing."""
