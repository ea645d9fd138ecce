"""Signs in what users and models write: guesses, each cheap where it is wrong."""
