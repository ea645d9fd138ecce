"""Tables in files, described by the library that will load them."""
