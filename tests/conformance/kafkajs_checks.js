// What is tried with kafkajs: `node kafkajs_checks.js ADDRESS FEATURE COMPRESSION`; exits 1 where it is not as it should be.

const assert = require("assert");
const crypto = require("crypto");
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");

const [address, feature, compression] = process.argv.slice(2);
const PATIENCE_MS = 60000;
const PARTITIONS = 4;
const BODIES = [...Array(200).keys()].map((number) => `message ${number} ${".".repeat(100)}`);
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };

CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
const kafka = new Kafka({ brokers: [address], clientId: "conformance", logLevel: logLevel.NOTHING });
const newName = (what) => `${what}-${crypto.randomUUID().slice(0, 13)}`;

async function madeTopic(what) {
  const topic = newName(what);
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] });
  await admin.disconnect();
  return topic;
}

async function put(topic, codec = "none") {
  const producer = kafka.producer();
  await producer.connect();
  const messages = BODIES.map((value) => ({ key: value.slice(0, 10), value }));
  await producer.send({ topic, messages, compression: CODECS[codec] });
  await producer.disconnect();
}

// A member that notes what it gets, and which partitions it has.
async function member(topic, groupId) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 200, rebalanceTimeout: 6000 });
  const found = { consumer, values: [], partitions: 0 };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    found.partitions = (payload.memberAssignment[topic] || []).length;
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => found.values.push(message.value.toString()) });
  return found;
}

async function until(isSo) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!isSo()) {
    assert(Date.now() < deadline, "it did not come to that");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const hasAll = (...members) => BODIES.every((body) => members.some((each) => each.values.includes(body)));

const checks = {
  "produce and consume": async () => {
    const topic = await madeTopic("kafkajs");
    await put(topic, compression);
    const reader = await member(topic, newName("group"));
    await until(() => hasAll(reader));
    await reader.consumer.disconnect();
    assert.deepStrictEqual(reader.values.sort(), [...BODIES].sort());
  },
  groups: async () => {
    const [topic, group] = [await madeTopic("kafkajs-groups"), newName("group")];
    await put(topic);
    const first = await member(topic, group);
    await until(() => hasAll(first));
    await first.consumer.disconnect();
    await put(topic);
    const second = await member(topic, group);
    await until(() => hasAll(second));
    await second.consumer.disconnect();
    assert.deepStrictEqual(second.values.sort(), [...BODIES].sort());
  },
  rebalancing: async () => {
    const [topic, group] = [await madeTopic("kafkajs-rebalancing"), newName("group")];
    const [one, two] = [await member(topic, group), await member(topic, group)];
    await until(() => one.partitions === 2 && two.partitions === 2);
    await two.consumer.disconnect();
    await until(() => one.partitions === PARTITIONS);
    await put(topic);
    await until(() => hasAll(one));
    await one.consumer.disconnect();
  },
  transactions: async () => {
    const topic = await madeTopic("kafkajs-transactions");
    const producer = kafka.producer({ transactionalId: newName("transaction"), idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    const aborted = await producer.transaction();
    await aborted.send({ topic, messages: [{ value: "aborted" }] });
    await aborted.abort();
    const kept = await producer.transaction();
    await kept.send({ topic, messages: BODIES.map((value) => ({ value })) });
    await kept.commit();
    await producer.disconnect();
    const reader = await member(topic, newName("group"));
    await until(() => hasAll(reader));
    await reader.consumer.disconnect();
    assert.deepStrictEqual(reader.values.sort(), [...BODIES].sort());
  },
  admin: async () => {
    const topic = await madeTopic("kafkajs-admin");
    const admin = kafka.admin();
    await admin.connect();
    const resource = { type: 2, name: topic };
    const entries = [{ name: "retention.ms", value: "3600000" }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: entries }] });
    const shown = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
    const found = shown.resources[0].configEntries.find((entry) => entry.configName === "retention.ms");
    assert.strictEqual(found.configValue, "3600000");
    await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS + 1 }] });
    await admin.deleteTopics({ topics: [topic] });
    assert(!(await admin.listTopics()).includes(topic));
    await admin.disconnect();
  },
};

checks[feature]().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
  },
);
