"""Requests to models: protocol, wire format, gateway, and models that need no key."""
