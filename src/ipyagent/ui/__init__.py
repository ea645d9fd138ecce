"""What is seen: the live card, the static mirror and plain text, all listeners on one stream."""
