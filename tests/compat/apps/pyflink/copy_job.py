"""PyFlink: copies one topic to another with the exactly-once sink, and continues from the last completed checkpoint.

    python copy_job.py BOOTSTRAP-SERVERS CONNECTOR-JAR CHECKPOINT-DIRECTORY

Its interpreter has the packages of `requirements.txt`, not those of the project.
"""

import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def last_checkpoint(directory: Path) -> Path | None:
    """The newest complete checkpoint: its metadata is written last."""
    complete = sorted(directory.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns)
    return complete[-1].parent if complete else None


def main(bootstrap_servers: str, connector: str, checkpoints: str) -> None:
    settings = Configuration()
    settings.set_string("pipeline.jars", Path(connector).as_uri())
    settings.set_string("parallelism.default", "2")
    settings.set_string("execution.checkpointing.interval", "500ms")
    settings.set_string("execution.checkpointing.mode", "EXACTLY_ONCE")
    settings.set_string("execution.checkpointing.dir", Path(checkpoints).as_uri())
    settings.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
    settings.set_string("execution.checkpointing.num-retained", "3")
    settings.set_string("execution.checkpointing.tolerable-failed-checkpoints", "100")
    settings.set_string("restart-strategy.type", "fixed-delay")
    settings.set_string("restart-strategy.fixed-delay.attempts", "1000")
    settings.set_string("restart-strategy.fixed-delay.delay", "500ms")
    if (checkpoint := last_checkpoint(Path(checkpoints))) is not None:
        settings.set_string("execution.state-recovery.path", checkpoint.as_uri())
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )
    common = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap_servers}', 'format' = 'raw'"
    tables.execute_sql(
        f"CREATE TABLE source (number STRING) WITH ({common}, 'topic' = 'source', 'properties.group.id' = 'copies', "
        "'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset')"
    )
    tables.execute_sql(
        f"CREATE TABLE target (number STRING) WITH ({common}, 'topic' = 'copy', 'sink.delivery-guarantee' = 'exactly-once', "
        "'sink.transactional-id-prefix' = 'copier', 'properties.transaction.timeout.ms' = '60000')"
    )
    job = tables.execute_sql("INSERT INTO target SELECT number FROM source")
    sys.stdout.write("started\n")
    sys.stdout.flush()
    job.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
