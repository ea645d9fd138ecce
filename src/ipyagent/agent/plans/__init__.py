"""Plans: their drafts, rehearsals on a copy of the kernel, and carrying them out."""
