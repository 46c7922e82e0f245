"""TLS settings that are safe: an `ssl.SSLContext` for the server's side, and for the client's."""

from __future__ import annotations

import os
import ssl

PathLike = str | os.PathLike[str]


def tls_server(
    certificate: PathLike,
    key: PathLike | None = None,
    *,
    client_ca: PathLike | None = None,
    password: str | None = None,
) -> ssl.SSLContext:
    """For `TcpServer(tls=...)`: with its certificate (and chain), and its key if that is in another file.

    With `client_ca`, clients must show a certificate that this authority has signed (mutual TLS).
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key, password)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def tls_client(
    ca: PathLike | None = None,
    *,
    certificate: PathLike | None = None,
    key: PathLike | None = None,
    password: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """For `TcpClient(tls=...)`: trusts the authorities of the system, or `ca` alone.

    `certificate` and `key` are shown to servers that ask for them. `verify=False` trusts any server: for tests.
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=None if ca is None else os.fspath(ca))
    if certificate is not None:
        context.load_cert_chain(certificate, key, password)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
