"""The examples that end the `--help` of each command, by its path. A test parses every one of them with the command itself."""

from collections.abc import Mapping, Sequence
from typing import Final

EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "": (
        "catchment up                                    # a broker on 127.0.0.1:9092",
        "catchment topic create orders --partitions 3",
        "echo '42:two coffees' | catchment produce orders --key-separator :",
        "catchment consume orders --until-end",
        "catchment topic list -b kafka.example.com:9092  # any Kafka cluster",
    ),
    "up": (
        "catchment up",
        "catchment up --port 9093 --data /var/tmp/second-broker",
        "catchment up --set num.partitions=3 --set log.retention.hours=24",
    ),
    "broker": (
        "catchment broker --config server.properties",
        "catchment broker --set listeners=PLAINTEXT://127.0.0.1:9093 --set log.dirs=/var/lib/catchment",
    ),
    "doctor": (
        "catchment doctor",
        "catchment doctor --config server.properties --json",
    ),
    "topic create": (
        "catchment topic create orders --partitions 3",
        "catchment topic create prices --set cleanup.policy=compact --if-not-exists",
    ),
    "topic list": (
        "catchment topic list",
        "catchment topic list --internal --json",
    ),
    "topic describe": (
        "catchment topic describe orders",
        "catchment topic describe orders --all-settings",
    ),
    "topic alter": (
        "catchment topic alter orders --set retention.ms=3600000",
        "catchment topic alter orders --partitions 6 --unset retention.ms",
    ),
    "topic trim": (
        "catchment topic trim orders --before 7d                # delete what is older than a week",
        "catchment topic trim orders --before 1000 --partition 0",
        "catchment topic trim orders --before end --yes         # delete all records",
    ),
    "topic delete": (
        "catchment topic delete orders",
        "catchment topic delete orders prices --if-exists --yes",
    ),
    "produce": (
        "catchment produce orders                        # type records, Ctrl-D ends",
        "printf '42:two coffees\\n' | catchment produce orders --key-separator :",
        "catchment produce orders records.txt --header source=shop --compression zstd",
        "catchment consume orders --until-end --json | catchment produce copy --input json",
        "catchment produce orders records.txt --no-create  # fail if the topic does not exist",
    ),
    "consume": (
        "catchment consume orders --until-end",
        "catchment consume orders --from -10 --format '%p/%o %k -> %s\\n'",
        "catchment consume orders --from 15m --json",
        "catchment consume orders --group billing",
    ),
    "group list": ("catchment group list", "catchment group list --type consumer --state Stable"),
    "group describe": ("catchment group describe billing",),
    "group lag": ("catchment group lag billing", "catchment group lag --watch 2"),
    "group reset": (
        "catchment group reset billing --topic orders --to-earliest            # show the plan",
        "catchment group reset billing --topic orders:0,2 --to-offset 100 --execute",
    ),
    "group alter": ("catchment group alter billing --set consumer.session.timeout.ms=60000",),
    "group delete": ("catchment group delete billing --yes", "catchment group delete billing --topic orders"),
    "transaction list": (
        "catchment transaction list",
        "catchment transaction list --state Ongoing --older-than 60",
    ),
    "transaction describe": ("catchment transaction describe copier",),
    "transaction producers": ("catchment transaction producers orders 0",),
    "transaction hanging": ("catchment transaction hanging --topic orders",),
    "transaction abort": (
        "catchment transaction abort copier",
        "catchment transaction abort --topic orders --partition 0 --start-offset 4711",
    ),
    "quota list": ("catchment quota list", "catchment quota list --user alice"),
    "quota set": ("catchment quota set --client-id loader --produce-rate 1048576",),
    "quota remove": ("catchment quota remove --client-id loader --produce-rate",),
    "pipeline plan": ("catchment pipeline plan city.py",),
    "pipeline run": (
        "catchment pipeline run city.py",
        "catchment pipeline run city.yaml --available-now       # process what is there, then end",
        "catchment pipeline run city.py --detach",
    ),
    "pipeline status": ("catchment pipeline status", "catchment pipeline status city --json"),
    "pipeline stop": ("catchment pipeline stop city",),
    "pipeline graph": ("catchment pipeline graph city.py", "catchment pipeline graph city.py --svg city.svg"),
    "pipeline backfill": ("catchment pipeline backfill city.py board --from 2026-05-01T12:00 --dry-run",),
    "pipeline rollback": ("catchment pipeline rollback city.py board",),
    "pipeline test": ("catchment pipeline test city.py", "catchment pipeline test city.py --only late"),
    "pipeline reset": (
        "catchment pipeline reset city.py --dry-run             # list what would be deleted",
        "catchment pipeline reset city.py",
    ),
    "pipeline prune": ("catchment pipeline prune city.py --dry-run",),
    "quarantine list": ("catchment quarantine list",),
    "quarantine show": ("catchment quarantine show city --error 'not JSON' --limit 5",),
    "quarantine replay": (
        "catchment quarantine replay city                       # show what would be sent",
        "catchment quarantine replay city --with 'jq -c .' --execute",
    ),
    "lake describe": ("catchment lake describe lake/reports",),
    "lake optimize": ("catchment lake optimize lake/reports",),
    "lake vacuum": ("catchment lake vacuum lake/reports --dry-run",),
    "lake sql": ("catchment lake sql lake/reports 'SELECT kind, count(*) FROM lake GROUP BY kind'",),
    "spark jars": ("catchment spark jars", "spark-submit --jars $(catchment spark jars --joined) job.py"),
    "example": (
        "catchment example list",
        "catchment example emergency",
        "catchment example emergency --seconds 60 --keep city",
    ),
    "cluster info": ("catchment cluster info", "catchment cluster info -b kafka.example.com:9092 --json"),
    "log dump": (
        "catchment log dump catchment-data/orders-0 --records",
        "catchment log dump catchment-data --summary",
    ),
    "bench broker": (
        "catchment bench broker --quick --rounds 1",
        "catchment bench broker --peer kafka --workload throughput --json results.json",
    ),
    "bench growth": ("catchment bench growth --requests 5000",),
    "bench spark": ("catchment bench spark --quick --rounds 1",),
    "bench pipeline": ("catchment bench pipeline --quick --rounds 1",),
    "profile create": (
        "catchment profile create local --bootstrap-server 127.0.0.1:9092",
        "catchment profile create prod -b kafka.example.com:9093 -X security.protocol=SASL_SSL "
        "-X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=alice --ask-password",
        "catchment profile create prod --client-config client.properties --overwrite",
    ),
    "profile list": ("catchment profile list",),
    "profile show": ("catchment profile show", "catchment profile show prod --secrets"),
    "profile use": ("catchment profile use prod",),
    "profile clear": ("catchment profile clear",),
    "profile delete": ("catchment profile delete prod --yes",),
}
