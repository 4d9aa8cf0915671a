//! Deterministic networks for RC3: queues, links and worlds in virtual time.
