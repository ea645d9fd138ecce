"""Services described by OpenAPI, as tools."""
