"""Telemetry of the process: metrics, logs, traces and health."""
