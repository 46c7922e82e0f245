"""ASGI applications behind a server."""
