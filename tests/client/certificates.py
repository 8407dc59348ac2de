"""Certificates for one test run, made by openssl: an authority, and keys that it signs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

KEY_PASSWORD = "opens-the-key"
_CONFIGURATION = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[member]
basicConstraints = CA:FALSE
authorityKeyIdentifier = keyid
subjectAltName = {alternative_name}
"""


class Pair(NamedTuple):
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; all files are under one directory."""

    def __init__(self, directory: Path, name: str) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        self._directory = directory
        self._pair = self._make(name, "authority", "DNS:none", [])
        self.certificate = self._pair.certificate

    def issue(self, name: str, alternative_name: str) -> Pair:
        """A certificate for a name such as `IP:127.0.0.1`."""
        return self._make(
            name, "member", alternative_name, ["-CA", str(self.certificate), "-CAkey", str(self._pair.key)]
        )

    def encrypted(self, pair: Pair) -> Pair:
        """The same pair with its key encrypted by `KEY_PASSWORD`."""
        locked = pair.key.with_suffix(".locked")
        self._openssl("pkcs8", "-topk8", "-in", str(pair.key), "-out", str(locked), "-passout", f"pass:{KEY_PASSWORD}")
        return Pair(pair.certificate, locked)

    def key_store(self, pair: Pair) -> Path:
        """Key and certificate in one file, as Kafka's brokers read it."""
        store = pair.key.with_suffix(".store")
        store.write_text(pair.key.read_text() + pair.certificate.read_text())
        return store

    def _make(self, name: str, section: str, alternative_name: str, signer: list[str]) -> Pair:
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        configuration = self._directory / f"{name}.cnf"
        configuration.write_text(_CONFIGURATION.format(alternative_name=alternative_name))
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        shape = ["-config", str(configuration), "-extensions", section, "-subj", f"/CN={name}"]
        files = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
        self._openssl("req", "-x509", *curve, *shape, *files, *signer)
        return pair

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
