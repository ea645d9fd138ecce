"""Services described by OpenAPI, as tools."""

from ipyagent.services.openapi.services import OpenAPIServices as OpenAPIServices
