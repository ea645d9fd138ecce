"""From a run, live or saved, to the words in which every view shows it."""
