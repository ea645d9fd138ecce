"""What operators see: the event log, the logger, traces."""
