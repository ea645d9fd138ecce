"""Telemetry for operators: the event log, the logger, traces."""
