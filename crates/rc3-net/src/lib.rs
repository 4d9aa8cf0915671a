//! Async RC3 endpoints over tokio and Linux UDP sockets.
