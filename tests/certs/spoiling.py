"""Certificates that are damaged where the library does not look when it reads them."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding


def spoilt(pem: bytes, part: bytes, by: bytes) -> bytes:
    """Return a certificate in PEM in which the first occurrence of some bytes of its DER is replaced."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert part in der
    body = base64.encodebytes(der.replace(part, by, 1))
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"
