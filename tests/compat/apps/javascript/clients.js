// Uses Kafka as programs in JavaScript do, with kafkajs.
//
//     node clients.js kafkajs produce BOOTSTRAP-SERVERS TOPIC COUNT CODEC
//     node clients.js kafkajs consume BOOTSTRAP-SERVERS TOPIC GROUP
//     node clients.js kafkajs copy    BOOTSTRAP-SERVERS SOURCE TARGET
//     node clients.js kafkajs admin   BOOTSTRAP-SERVERS TOPIC
//
// Every line that it prints is one event in JSON. Record i has the key "key-i", the value "i" and a header "number" with "i".
// The library is looked for where NODE_PATH says.
'use strict'

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const tell = (event) => process.stdout.write(JSON.stringify(event) + '\n')

const connectTo = (servers) =>
  new Kafka({
    clientId: 'compat',
    brokers: servers.split(','),
    logLevel: logLevel.WARN,
    // A broker that is killed is back within seconds; the default gives up after five tries.
    retry: { retries: 50, initialRetryTime: 100, maxRetryTime: 1000 },
  })

const group = (kafka, groupId, more = {}) =>
  kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10000, ...more })

async function produce(servers, topic, count, codec) {
  const producer = connectTo(servers).producer({ idempotent: true })
  await producer.connect()
  const messages = Array.from({ length: Number(count) }, (_, number) => ({
    key: `key-${number}`,
    value: `${number}`,
    headers: { number: `${number}` },
  }))
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
  await producer.send({ topic, messages, acks: -1, compression })
  await producer.disconnect()
  tell({ written: messages.length })
}

async function consume(servers, topic, groupId) {
  const consumer = group(connectTo(servers), groupId)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => tell({ assigned: payload.memberAssignment[topic] ?? [] }))
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 100,
    eachMessage: async ({ partition, message }) => {
      const headers = Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, value.toString()]))
      const [key, value] = [message.key?.toString() ?? '', message.value.toString()]
      tell({ partition, offset: Number(message.offset), key, value, headers })
    },
  })
}

async function copy(servers, source, target) {
  const kafka = connectTo(servers)
  const producer = kafka.producer({
    transactionalId: 'copier',
    idempotent: true,
    maxInFlightRequests: 1,
    transactionTimeout: 10000,
  })
  await producer.connect()
  // What a killed predecessor has left is aborted before any offset is read.
  await (await producer.transaction()).abort()
  const consumer = group(kafka, 'copies', { readUncommitted: false })
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  let number = 0
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, heartbeat, resolveOffset, isRunning, isStale }) => {
      for (let first = 0; first < batch.messages.length && isRunning() && !isStale(); ) {
        const messages = batch.messages.slice(first, first + 50)
        const commits = ++number % 5 !== 0
        if (await copyOnce(producer, { source, target, partition: batch.partition, messages, commits })) {
          resolveOffset(messages.at(-1).offset)
          first += messages.length
        }
        await heartbeat()
      }
    },
  })
}

async function copyOnce(producer, { source, target, partition, messages, commits }) {
  const transaction = await producer.transaction()
  try {
    await transaction.send({ topic: target, messages: messages.map(({ value }) => ({ value, partition })) })
    const next = (BigInt(messages.at(-1).offset) + 1n).toString()
    await transaction.sendOffsets({
      consumerGroupId: 'copies',
      topics: [{ topic: source, partitions: [{ partition, offset: next }] }],
    })
    await (commits ? transaction.commit() : transaction.abort())
  } catch (error) {
    // The outcome may be unknown: a new process asks the broker. The tests start it again.
    tell({ failed: String(error) })
    process.exit(4)
  }
  tell({ [commits ? 'committed' : 'aborted']: messages.length })
  return commits
}

async function administrate(servers, topic) {
  const admin = connectTo(servers).admin()
  await admin.connect()
  const configEntries = [{ name: 'retention.ms', value: '3600000' }]
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries }] })
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  const changed = [
    { name: 'retention.ms', value: '7200000' },
    { name: 'cleanup.policy', value: 'delete,compact' },
  ]
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: changed }],
  })
  await produce(servers, topic, 30, 'gzip')
  const told = await describe(admin, topic)
  await admin.deleteTopics({ topics: [topic] })
  tell({ ...told, is_deleted: !(await admin.listTopics()).includes(topic) })
  await admin.disconnect()
}

async function describe(admin, topic) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  const { partitions } = topics[0]
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
  })
  const numbers = partitions.map(({ partitionId }) => partitionId).sort()
  const ends = await admin.fetchTopicOffsets(topic)
  const assignment = partitions.map(({ partitionId, replicas }) => ({ partition: partitionId, replicas }))
  await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: assignment }] })
  const moving = await admin.listPartitionReassignments({ topics: [{ topic, partitions: numbers }] })
  const marks = numbers.map((partition) => ({ partition, offset: `${5 + partition}` }))
  await admin.setOffsets({ groupId: 'administered', topic, partitions: marks })
  const [offsets] = await admin.fetchOffsets({ groupId: 'administered', topics: [topic] })
  const { groups } = await admin.describeGroups(['administered'])
  const told = {
    partitions: partitions.length,
    configs: Object.fromEntries(resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue])),
    end_offsets: numbers.map((number) => Number(ends.find(({ partition }) => partition === number).high)),
    reassignments: moving.topics.length,
    group_offsets: numbers.map((number) => Number(offsets.partitions.find((found) => found.partition === number).offset)),
    group_state: groups[0].state,
    groups: (await admin.listGroups()).groups.map(({ groupId }) => groupId),
    brokers: (await admin.describeCluster()).brokers.length,
  }
  await admin.deleteGroups(['administered'])
  return told
}

const commands = { produce, consume, copy, admin: administrate }
const [, , , command, ...rest] = process.argv
commands[command](...rest).catch((error) => {
  console.error(error)
  process.exit(1)
})
