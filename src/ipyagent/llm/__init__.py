"""How a model is asked: the protocol, the wire format, the gateway and what answers without a key."""
