"""Devices: their URIs, discovery and backends."""
