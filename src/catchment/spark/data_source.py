"""The format "catchment": what Spark calls to read topics and to write to them, in batches and in streams."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import ClassVar, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType
from typing_extensions import override

from catchment.spark.formats.decoding import Decoding
from catchment.spark.launch.python_workers import drop_empty_profiles, silence_disconnects
from catchment.spark.source.batch_reader import BatchReader
from catchment.spark.source.columns import check_schema, source_schema
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.record_reading import RecordReading
from catchment.spark.source.stream_reader import StreamReader

_FORMATS: Final = ("keyformat", "valueformat")


class CatchmentDataSource(DataSource):
    """Topics as tables. Spark pickles it once its schema is known, so what was loaded for that stays with the query."""

    notices_address: ClassVar[str | None] = None
    """Where readers of streams hear of finished batches; set for a session that is registered."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._decoding: Decoding | None = None

    @classmethod
    def name(cls) -> str:
        return "catchment"

    def schema(self) -> StructType:
        # Whether this is for a stream is not known here; what differs there is checked with the reader.
        options = SourceOptions.read(self.options, streaming=None)
        return source_schema(
            self._pinned_decoding(options),
            include_headers=options.include_headers,
            include_facts=options.watermark_from is not None,
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.read(self.options, streaming=False)
        return BatchReader(options, self._reading(options, schema))

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = SourceOptions.read(self.options, streaming=True)
        return StreamReader(options, self._reading(options, schema), self.notices_address)

    # The sink is imported where it is used: a query that only reads does not load it into every worker.
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from catchment.spark.sink.batch_writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    @override
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from catchment.spark.sink.stream_writer import StreamWriter

        return StreamWriter(self.options, schema)

    def _reading(self, options: SourceOptions, schema: StructType) -> RecordReading:
        decoding = self._pinned_decoding(options)
        check_schema(schema, decoding, include_facts=options.watermark_from is not None)
        return RecordReading.of(options, decoding, schema)

    def _pinned_decoding(self, options: SourceOptions) -> Decoding:
        """What key and value are decoded with: loaded once, whatever a registry holds later."""
        if self._decoding is None:
            needs_topics = any(name.lower() in _FORMATS for name in self.options)
            topics = options.selection.topic_names(options.connection.cluster()) if needs_topics else []
            self._decoding = Decoding.read(self.options, topics)
        return self._decoding


silence_disconnects()
drop_empty_profiles()
