"""What lasts: the journal, graph files, what a notebook keeps."""
