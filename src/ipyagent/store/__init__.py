"""Persistent state: the journal, graph files, runs saved in notebooks."""
