"""Fetching peers: once, whole, and with a reason where it cannot be done. Maven itself is played by a script."""

import threading
from pathlib import Path

import pytest
from tests.bench.pretended_maven import install_maven

from catchment.bench.peers.java import java_command
from catchment.bench.peers.maven import PeerUnavailable, classpath
from catchment.spark.launch.connector_jars import Artifact

ARTIFACTS = (Artifact("org.example", "thing", "1.0"),)
FETCHES = """#!/bin/sh
echo fetch >> "$FETCHES"
grep -q '<artifactId>thing</artifactId><version>1.0</version>' pom.xml || exit 1
for argument in "$@"; do case "$argument" in -DoutputDirectory=*) mkdir "${argument#*=}"; touch "${argument#*=}/thing.jar";; esac; done
"""
FAILS = """#!/bin/sh
echo "Could not find artifact org.example:thing"
exit 1
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "catchment" / "peers"


def test_a_fetched_jar_is_kept_and_reused_also_by_concurrent_callers(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = install_maven(tmp_path, monkeypatch, FETCHES)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(classpath(ARTIFACTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert fetches.read_text().count("fetch") == 1
    assert [jar.name for jar in Path(found[0]).parent.iterdir()] == ["thing.jar"]
    assert Path(found[0]).is_relative_to(cache)


def test_a_failed_fetch_leaves_nothing_that_looks_whole(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path, monkeypatch, FAILS)
    with pytest.raises(PeerUnavailable, match="Could not find artifact"):
        classpath(ARTIFACTS)
    assert [path for path in cache.iterdir() if path.is_dir() or path.suffix == ".jar"] == []


@pytest.mark.usefixtures("cache")
def test_missing_maven_or_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerUnavailable, match="mvn is not installed"):
        classpath(ARTIFACTS)
    with pytest.raises(PeerUnavailable, match="java is not installed"):
        java_command()
