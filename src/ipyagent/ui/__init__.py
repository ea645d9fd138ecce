"""The views of users: the live card, static HTML and plain text, all listeners on one stream."""
