"""Kafka 4.3's broker settings that Catchment accepts and ignores, with their kinds and defaults.

A Catchment broker must start with a server.properties that was written for Kafka: a setting that is listed here causes one line
in the log, an unknown one a warning with a suggestion. DescribeConfigs returns the given values, so that tools find what they
have set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from catchment.settings.setting import Definitions, Kind, Setting, UpdateMode

# By kind: the names, with their defaults if they have any.
_READ_ONLY: Final = {
    Kind.BOOLEAN: """
auto.leader.rebalance.enable=true controlled.shutdown.enable=true controller.quorum.auto.join.enable=false
remote.log.storage.system.enable=false sasl.oauthbearer.assertion.claim.jti.include=false ssl.allow.dn.changes=false
ssl.allow.san.changes=false transaction.two.phase.commit.enable=false unstable.api.versions.enable=false
unstable.feature.versions.enable=false
""",
    Kind.CLASS: """
alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.server.callback.handler.class
""",
    Kind.DOUBLE: """
remote.log.manager.task.retry.jitter=0.2
""",
    Kind.INT: """
add.partitions.to.txn.retry.backoff.ms=20 alter.log.dirs.replication.quota.window.num=11
alter.log.dirs.replication.quota.window.size.seconds=1 broker.heartbeat.interval.ms=2000
broker.session.timeout.ms=9000 connection.failed.authentication.delay.ms=100 controller.quorum.append.linger.ms=25
controller.quorum.election.backoff.max.ms=1000 controller.quorum.election.timeout.ms=1000
controller.quorum.fetch.max.bytes=1048576 controller.quorum.fetch.snapshot.max.bytes=1048576
controller.quorum.fetch.timeout.ms=2000 controller.quorum.request.timeout.ms=2000
controller.quorum.retry.backoff.ms=20 controller.socket.timeout.ms=30000
delete.records.purgatory.purge.interval.requests=1 fetch.purgatory.purge.interval.requests=1000
group.consumer.max.assignment.interval.ms=15000 group.consumer.min.assignment.interval.ms=0
group.consumer.regex.refresh.interval.ms=600000 group.coordinator.append.linger.ms=-1
group.coordinator.background.threads=2 group.coordinator.threads=4 group.share.max.assignment.interval.ms=15000
group.share.min.assignment.interval.ms=0 group.streams.heartbeat.interval.ms=5000
group.streams.initial.rebalance.delay.ms=3000 group.streams.max.assignment.interval.ms=15000
group.streams.max.heartbeat.interval.ms=15000 group.streams.max.session.timeout.ms=60000
group.streams.max.size=2147483647 group.streams.max.standby.replicas=2 group.streams.min.assignment.interval.ms=0
group.streams.min.heartbeat.interval.ms=5000 group.streams.min.session.timeout.ms=45000
group.streams.num.standby.replicas=0 group.streams.session.timeout.ms=45000
initial.broker.registration.timeout.ms=60000 internal.metadata.log.segment.bytes
internal.metadata.max.batch.size.in.bytes=8388608 kafka.metrics.polling.interval.secs=10
log.flush.start.offset.checkpoint.interval.ms=60000 metadata.log.segment.bytes=1073741824
metadata.max.idle.interval.ms=500 metrics.num.samples=2 num.replica.alter.log.dirs.threads
offsets.load.buffer.size=5242880 offsets.topic.compression.codec=0 producer.id.expiration.check.interval.ms=600000
producer.purgatory.purge.interval.requests=1000 remote.log.manager.copy.quota.window.num=11
remote.log.manager.copy.quota.window.size.seconds=1 remote.log.manager.fetch.quota.window.num=11
remote.log.manager.fetch.quota.window.size.seconds=1 remote.log.manager.thread.pool.size=2
remote.log.metadata.custom.metadata.max.bytes=128 remote.log.reader.max.pending.tasks=100
replica.fetch.backoff.ms=1000 replica.fetch.max.bytes=1048576 replica.fetch.min.bytes=1
replica.fetch.response.max.bytes=10485760 replica.fetch.wait.max.ms=500 replica.socket.receive.buffer.bytes=65536
replica.socket.timeout.ms=30000 replication.quota.window.num=11 replication.quota.window.size.seconds=1
request.timeout.ms=30000 sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.oauthbearer.assertion.claim.exp.seconds=300 sasl.oauthbearer.assertion.claim.nbf.seconds=60
sasl.oauthbearer.clock.skew.seconds=30 sasl.server.max.receive.size=524288 share.coordinator.append.linger.ms=-1
share.coordinator.load.buffer.size=5242880 share.coordinator.state.topic.compression.codec=0
share.coordinator.threads=1 share.fetch.purgatory.purge.interval.requests=1000 telemetry.max.bytes=1048576
transaction.state.log.load.buffer.size=5242880
""",
    Kind.LIST: """
controller.listener.names=<none> controller.quorum.bootstrap.servers= controller.quorum.voters= early.start.listeners
group.coordinator.rebalance.protocols=classic,consumer,streams group.share.assignors=simple kafka.metrics.reporters=
process.roles=<none> sasl.oauthbearer.expected.audience=
""",
    Kind.LONG: """
connections.max.reauth.ms=0 controller.performance.always.log.threshold.ms=2000
controller.performance.sample.period.ms=60000 delegation.token.expiry.check.interval.ms=3600000
delegation.token.expiry.time.ms=86400000 delegation.token.max.lifetime.ms=604800000
internal.metadata.delete.delay.millis=60000 leader.imbalance.check.interval.seconds=300
log.dir.failure.timeout.ms=30000 log.initial.task.delay.ms=30000
metadata.log.max.record.bytes.between.snapshots=20971520 metadata.log.max.snapshot.interval.ms=3600000
metadata.log.segment.ms=604800000 metadata.max.retention.bytes=104857600 metadata.max.retention.ms=604800000
metrics.sample.window.ms=30000 queued.max.request.bytes=-1 remote.log.index.file.cache.ttl.ms=900000
remote.log.manager.task.interval.ms=30000 remote.log.manager.task.retry.backoff.max.ms=30000
remote.log.manager.task.retry.backoff.ms=500 replica.high.watermark.checkpoint.interval.ms=5000
replica.lag.time.max.ms=30000 sasl.login.retry.backoff.max.ms=10000 sasl.login.retry.backoff.ms=100
sasl.oauthbearer.jwks.endpoint.refresh.ms=3600000 sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=100 server.max.startup.time.ms=9223372036854775807
socket.connection.setup.timeout.max.ms=30000 socket.connection.setup.timeout.ms=10000
unclean.leader.election.interval.ms=300000
""",
    Kind.PASSWORD: """
delegation.token.secret.key sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.client.credentials.client.secret
""",
    Kind.STRING: """
authorizer.class.name= group.share.persister.class.name=org.apache.kafka.server.share.persister.DefaultStatePersister
metadata.log.dir metrics.recording.level=INFO
remote.log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix=rlmm.config.
remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name remote.log.storage.manager.class.path
remote.log.storage.manager.impl.prefix=rsm.config. replica.selector.class sasl.mechanism.controller.protocol=GSSAPI
sasl.oauthbearer.assertion.algorithm=RS256 sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name=scope sasl.oauthbearer.sub.claim.name=sub sasl.oauthbearer.token.endpoint.url
security.inter.broker.protocol=PLAINTEXT security.providers ssl.principal.mapping.rules=DEFAULT
""",
}

_DYNAMIC: Final = {
    Kind.BOOLEAN: """
follower.fetch.last.tiered.offset.enable=false
""",
    Kind.CLASS: """
principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
ssl.engine.factory.class
""",
    Kind.DOUBLE: """
log.cleaner.io.buffer.load.factor=0.9 log.cleaner.io.max.bytes.per.second=1.7976931348623157E308
sasl.kerberos.ticket.renew.jitter=0.05 sasl.kerberos.ticket.renew.window.factor=0.8
sasl.login.refresh.window.factor=0.8 sasl.login.refresh.window.jitter=0.05
""",
    Kind.INT: """
background.threads=10 group.consumer.assignment.interval.ms=1000 group.coordinator.cached.buffer.max.bytes=1048588
group.share.assignment.interval.ms=1000 group.streams.assignment.interval.ms=1000 log.cleaner.io.buffer.size=524288
log.cleaner.threads=1 max.connection.creation.rate=2147483647 num.io.threads=8 num.network.threads=3
num.recovery.threads.per.data.dir=2 num.replica.fetchers=1 remote.fetch.max.wait.ms=500
remote.log.manager.copier.thread.pool.size=10 remote.log.manager.expiration.thread.pool.size=10
remote.log.manager.follower.thread.pool.size=2 remote.log.reader.threads=10
share.coordinator.cached.buffer.max.bytes=1048588
""",
    Kind.LIST: """
config.providers= cordoned.log.dirs= metric.reporters=org.apache.kafka.common.metrics.JmxReporter
sasl.enabled.mechanisms=GSSAPI sasl.kerberos.principal.to.local.rules=DEFAULT ssl.cipher.suites=
ssl.enabled.protocols=TLSv1.2,TLSv1.3
""",
    Kind.LONG: """
follower.replication.throttled.rate leader.replication.throttled.rate
log.local.retention.bytes=-2 log.local.retention.ms=-2 remote.list.offsets.request.timeout.ms=30000
remote.log.index.file.cache.total.size.bytes=1073741824
remote.log.manager.copy.max.bytes.per.second=9223372036854775807
remote.log.manager.fetch.max.bytes.per.second=9223372036854775807
replica.alter.log.dirs.io.max.bytes.per.second sasl.kerberos.min.time.before.relogin=60000
""",
    Kind.PASSWORD: """
sasl.jaas.config ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password
ssl.truststore.certificates ssl.truststore.password
""",
    Kind.SHORT: """
sasl.login.refresh.buffer.seconds=300 sasl.login.refresh.min.period.seconds=60
""",
    Kind.STRING: """
sasl.kerberos.kinit.cmd=/usr/bin/kinit sasl.kerberos.service.name sasl.mechanism.inter.broker.protocol=GSSAPI
ssl.client.auth=none ssl.endpoint.identification.algorithm=https ssl.keymanager.algorithm=SunX509
ssl.keystore.location ssl.keystore.type=JKS ssl.protocol=TLSv1.3 ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm=PKIX ssl.truststore.location ssl.truststore.type=JKS
""",
}


def _names(table: Mapping[Kind, str]) -> frozenset[str]:
    return frozenset(entry.partition("=")[0] for entries in table.values() for entry in entries.split())


READ_ONLY_IN_KAFKA: Final = _names(_READ_ONLY)
DYNAMIC_IN_KAFKA: Final = _names(_DYNAMIC)

# Settings of single listeners, and of Kafka's plug-ins.
_OF_A_LISTENER: Final = "listener.name."
_PREFIXES: Final = (_OF_A_LISTENER, "rlmm.config.", "rsm.config.")
_DOCUMENTATION: Final = "A setting of Kafka that Catchment accepts and ignores."


def is_ignored(name: str) -> bool:
    """Whether Kafka has this setting and Catchment ignores it."""
    return name in READ_ONLY_IN_KAFKA or name in DYNAMIC_IN_KAFKA or name.startswith(_PREFIXES)


@cache
def ignored_settings() -> Definitions:
    """Kafka's definitions of the settings that Catchment ignores."""
    return Definitions([*_settings(_READ_ONLY, UpdateMode.READ_ONLY), *_settings(_DYNAMIC, UpdateMode.CLUSTER_WIDE)])


def ignored_setting(name: str) -> Setting | None:
    """Kafka's definition of one of them. A listener's setting is defined like the one for all listeners, but read-only."""
    general = general_name(name)
    found = ignored_settings().get(general)
    if found is None or general == name:
        return found
    return found._replace(name=name, update_mode=UpdateMode.READ_ONLY)


def general_name(name: str) -> str:
    """The name for all listeners of a setting of one listener, or of its SASL mechanism. Other names are returned unchanged."""
    if not name.startswith(_OF_A_LISTENER):
        return name
    _, _, rest = name.removeprefix(_OF_A_LISTENER).partition(".")
    _, _, of_mechanism = rest.partition(".")
    return of_mechanism if of_mechanism in ignored_settings() else rest


def _settings(table: Mapping[Kind, str], update_mode: UpdateMode) -> Iterator[Setting]:
    for kind, entries in table.items():
        for entry in entries.split():
            name, has_default, default = entry.partition("=")
            setting = Setting(name, kind, None, _DOCUMENTATION, update_mode=update_mode)
            yield setting._replace(default=setting.parse(default)) if has_default else setting
