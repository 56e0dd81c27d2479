"""Requests to the viewer's server that no client library would send."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def raw(address: str, request: bytes) -> bytes:
    """Send the bytes of ``request`` to the server at ``address``; return all bytes of its answer."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer
