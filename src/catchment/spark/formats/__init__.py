"""Typed columns from the bytes of records: Avro, JSON, Protobuf and text, with a schema given or from a registry."""
