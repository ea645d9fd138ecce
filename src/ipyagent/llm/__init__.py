"""How a model is asked: protocol, wire format, gateway, and what answers without a key."""
