"""Names of Kafka 4.3's broker settings that Catchment accepts and ignores.

A server.properties written for Kafka must start a Catchment broker: what is listed here draws one line in the log, what is
neither here nor in our own definitions draws a warning with a suggestion.
"""

from __future__ import annotations

from typing import Final

_READ_ONLY_NAMES: Final = """
add.partitions.to.txn.retry.backoff.ms alter.config.policy.class.name
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name
auto.leader.rebalance.enable broker.heartbeat.interval.ms broker.session.timeout.ms client.quota.callback.class
connection.failed.authentication.delay.ms connections.max.reauth.ms controlled.shutdown.enable
controller.listener.names controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters
controller.socket.timeout.ms create.topic.policy.class.name
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
delegation.token.secret.key delete.records.purgatory.purge.interval.requests early.start.listeners
fetch.purgatory.purge.interval.requests
group.consumer.max.assignment.interval.ms
group.consumer.min.assignment.interval.ms
group.consumer.regex.refresh.interval.ms
group.coordinator.append.linger.ms group.coordinator.background.threads group.coordinator.rebalance.protocols
group.coordinator.threads group.share.assignors group.share.max.assignment.interval.ms
group.share.min.assignment.interval.ms group.share.persister.class.name
group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
group.streams.max.standby.replicas group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
group.streams.min.session.timeout.ms group.streams.num.standby.replicas group.streams.session.timeout.ms
initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters
leader.imbalance.check.interval.seconds log.dir.failure.timeout.ms log.flush.start.offset.checkpoint.interval.ms
log.initial.task.delay.ms metadata.log.dir metadata.log.max.record.bytes.between.snapshots
metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
metadata.max.retention.bytes metadata.max.retention.ms metrics.num.samples metrics.recording.level
metrics.sample.window.ms num.replica.alter.log.dirs.threads offsets.load.buffer.size offsets.topic.compression.codec
process.roles
queued.max.request.bytes
producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
remote.log.index.file.cache.ttl.ms remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class sasl.server.max.receive.size
security.inter.broker.protocol security.providers server.max.startup.time.ms share.coordinator.append.linger.ms
share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec
share.coordinator.threads share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.allow.dn.changes ssl.allow.san.changes ssl.principal.mapping.rules
telemetry.max.bytes transaction.state.log.load.buffer.size transaction.two.phase.commit.enable
unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""

_DYNAMIC_NAMES: Final = """
background.threads config.providers cordoned.log.dirs follower.fetch.last.tiered.offset.enable
follower.replication.throttled.rate group.consumer.assignment.interval.ms group.coordinator.cached.buffer.max.bytes
group.share.assignment.interval.ms group.streams.assignment.interval.ms leader.replication.throttled.rate
log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second log.cleaner.threads log.local.retention.bytes log.local.retention.ms
max.connection.creation.rate metric.reporters num.io.threads num.network.threads num.recovery.threads.per.data.dir
num.replica.fetchers principal.builder.class remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size remote.log.reader.threads
replica.alter.log.dirs.io.max.bytes.per.second sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.mechanism.inter.broker.protocol share.coordinator.cached.buffer.max.bytes ssl.cipher.suites ssl.client.auth
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""

READ_ONLY_IN_KAFKA: Final = frozenset(_READ_ONLY_NAMES.split())
DYNAMIC_IN_KAFKA: Final = frozenset(_DYNAMIC_NAMES.split())

# A listener may have settings of its own, and plug-ins of Kafka have theirs.
_PREFIXES: Final = ("listener.name.", "rlmm.config.", "rsm.config.")


def is_ignored(name: str) -> bool:
    """Whether Kafka knows this name and Catchment does not act on it."""
    return name in READ_ONLY_IN_KAFKA or name in DYNAMIC_IN_KAFKA or name.startswith(_PREFIXES)
