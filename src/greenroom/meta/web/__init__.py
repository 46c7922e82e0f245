"""HTTP and WebSocket, by the parsers h11 and wsproto: `pip install greenroom[web]`."""
