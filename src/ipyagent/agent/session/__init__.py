"""A session: its conversation, its runs, and where they are kept."""
