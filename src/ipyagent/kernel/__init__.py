"""The running kernel: its main thread, its namespace, its front end, its interrupts."""
