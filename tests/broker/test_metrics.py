"""The broker's metrics: each that is documented is read, and says what happened."""

from catchment.broker.metrics import readings
from catchment.broker.server import BrokerServer
from catchment.cluster.metadata import QuotaEntity
from catchment.cluster.new_topic import NewTopic
from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.telemetry import METRICS, Exporter
from catchment.settings.broker import BrokerSettings


async def test_every_metric_is_read_from_a_running_broker() -> None:
    settings = BrokerSettings({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data"})
    server = BrokerServer(settings, disk=MemoryDisk())
    await server.start()
    try:
        await server.services.controller.create_topic(NewTopic("t", 2))
        server.services.traffic.produced(1000)
        server.services.traffic.requested(0)
        entity = QuotaEntity(user="ann")
        await server.services.controller.change_client_quotas(lambda _: {entity: {"producer_byte_rate": 100}})
        server.services.quotas.record("producer_byte_rate", "ann", "app", 1000)
        server.services.quotas.throttle_times_ms["producer_byte_rate"] += 30
        assert {reading.metric for reading in readings(server.services)} == set(METRICS)
        text = Exporter(lambda: readings(server.services)).render().decode()
    finally:
        await server.close()
    lines = text.splitlines()
    assert "kafka_server_brokertopicmetrics_bytesin_total 1000.0" in lines
    assert 'kafka_network_requestmetrics_requests_total{request="Produce"} 1.0' in lines
    assert "kafka_server_replicamanager_partitioncount 2.0" in lines
    assert 'catchment_client_throttle_milliseconds_total{quota="producer_byte_rate"} 30.0' in lines
    assert 'kafka_log_log_logendoffset{partition="1",topic="t"} 0.0' in lines
