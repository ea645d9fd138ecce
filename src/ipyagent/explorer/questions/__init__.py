"""Questions in ordinary words: whole prompts of sentences, constraints and a form of answer."""
