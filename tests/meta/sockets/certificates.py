"""Certificates for tests of TLS, made by the program `openssl`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Certificates", "make_certificates"]

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificates:
    """Files: an authority, and a server and a client that it has signed; and a client that another one has."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    stranger: Path
    stranger_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make them all; the server's is for `localhost` and 127.0.0.1."""
    ca = _authority(folder, "ca")
    other = _authority(folder, "other")
    server = _signed(folder, ca, "server", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    client = _signed(folder, ca, "client", "extendedKeyUsage=clientAuth")
    stranger = _signed(folder, other, "stranger", "extendedKeyUsage=clientAuth")
    return Certificates(ca, *_pair(server), *_pair(client), *_pair(stranger))


def _pair(certificate: Path) -> tuple[Path, Path]:
    return certificate, certificate.with_suffix(".key")


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def _authority(folder: Path, name: str) -> Path:
    made = folder / f"{name}.pem"
    files = ("-keyout", made.with_suffix(".key"), "-out", made)
    may = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _openssl("req", "-x509", *_KEY, *files, "-days", 3650, "-subj", f"/CN=greenroom tests {name}", *may)
    return made


def _signed(folder: Path, ca: Path, name: str, extension: str) -> Path:
    made = folder / f"{name}.pem"
    request, extensions = made.with_suffix(".csr"), made.with_suffix(".ext")
    extensions.write_text(extension)
    _openssl("req", *_KEY, "-keyout", made.with_suffix(".key"), "-out", request, "-subj", f"/CN={name}")
    signing = ("-CA", ca, "-CAkey", ca.with_suffix(".key"), "-CAcreateserial", "-extfile", extensions)
    _openssl("x509", "-req", "-in", request, *signing, "-out", made, "-days", 3650)
    return made
