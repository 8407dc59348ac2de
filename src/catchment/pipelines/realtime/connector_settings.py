"""A pipeline's connection settings under the names of the Java client, which Spark's own connector uses.

A pipeline has one mapping of settings, with the names of this client and of librdkafka. Names of the Java client stay as they are.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from catchment.client.errors import SettingsError
from catchment.client.settings import MECHANISMS
from catchment.spark.options.connection import PREFIX, kafka_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(
        (one for one in MECHANISMS if one.startswith("SCRAM")),
        "org.apache.kafka.common.security.scram.ScramLoginModule",
    ),
}
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_KEY: Final = "PRIVATE KEY-----"
_KINDS_OF_KEYS: Final = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")
_ENCRYPTED: Final = _KINDS_OF_KEYS[1]
_ENCRYPTED_BLOCK: Final = re.compile(f"{_ENCRYPTED}([^-]+)-")
_UNNAMED: Final = "PBES2"
"""The name of the family. A Java that can decrypt such a key reports the cipher's own name."""


def connector_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options for Spark's own connector; those given begin with `kafka.` as well."""
    settings = kafka_settings(options)
    for name in ("security.protocol", "sasl.mechanism", "sasl.mechanisms"):
        if name in settings:
            settings[name] = settings[name].upper()
    _set_login(settings)
    _set_authority(settings)
    _set_certificate(settings)
    if settings.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        settings["ssl.endpoint.identification.algorithm"] = ""
    return {f"{PREFIX}{name}": value for name, value in settings.items()}


def require_readable_key(spark: SparkSession, options: Mapping[str, str]) -> None:
    """SettingsError where the key is encrypted in a way that the Java of this session cannot name, and so not read."""
    found = _ENCRYPTED_BLOCK.search(connector_options(options).get(f"{PREFIX}ssl.keystore.key", ""))
    if found is None:
        return
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session has a JVM of its own"
    kind = jvm.javax.crypto.EncryptedPrivateKeyInfo(b64decode(found[1])).getAlgName()
    if kind == _UNNAMED:
        raise SettingsError(
            f"the private key is encrypted in a way ({kind}) that Java {jvm.java.lang.Runtime.version().feature()} cannot read",
            "Run Spark with a newer Java, 25 for example, or name a key that is not encrypted in ssl.key.location.",
        )


def quoted(text: str) -> str:
    """A text as JAAS takes it, which ends a value at a quote or a line's end."""
    return f'"{text.translate(_ESCAPES)}"'


def _set_login(settings: dict[str, str]) -> None:
    """User and password go into the JAAS configuration, which names a Java class for each mechanism."""
    if (mechanism := settings.pop("sasl.mechanisms", None)) is not None:
        settings.setdefault("sasl.mechanism", mechanism)
    user, password = settings.pop("sasl.username", None), settings.pop("sasl.password", None)
    if user is None or password is None or "sasl.jaas.config" in settings:
        return
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism not in _LOGIN_MODULES:
        raise SettingsError(f"sasl.mechanism cannot be {mechanism!r}", f"Choose one of {', '.join(_LOGIN_MODULES)}.")
    settings["sasl.jaas.config"] = (
        f"{_LOGIN_MODULES[mechanism]} required username={quoted(user)} password={quoted(password)};"
    )


def _set_authority(settings: dict[str, str]) -> None:
    if authority := settings.pop("ssl.ca.location", None):
        if Path(authority).is_dir():
            raise SettingsError(
                f"ssl.ca.location names the directory {authority}, and real-time mode takes a file",
                "Put the certificates into one PEM file, and name that.",
            )
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}


def _set_certificate(settings: dict[str, str]) -> None:
    """Java has certificate and key in one file, or takes their text; a password only where the key has one."""
    certificate, key = settings.pop("ssl.certificate.location", None), settings.pop("ssl.key.location", None)
    if not certificate:
        return
    chain, private = _text("ssl.certificate.location", certificate), _text("ssl.key.location", key or certificate)
    if _KEY in private and not any(kind in private for kind in _KINDS_OF_KEYS):
        raise SettingsError(
            f"the key in {key or certificate} has a form that real-time mode cannot read",
            f"Convert it: openssl pkcs8 -topk8 -in {key or certificate} -out client.key",
        )
    if _ENCRYPTED not in private:
        settings.pop("ssl.key.password", None)
    settings |= {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": private,
    }


def _text(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{name} names {file}, which cannot be read", "Name a PEM file.") from error
