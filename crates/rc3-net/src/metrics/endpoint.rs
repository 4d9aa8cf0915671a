//! Gauges of the endpoint, and counters of its sockets.

use std::time::{Duration, Instant};

use metrics::{Label, Unit, describe_gauge, gauge};

use super::kickass;
use super::{
    connection,
    counter::{self, Counted},
    handed_over::{self, report_detours},
};
use crate::{handed_over::Detours, socket, sums::sums};

/// Interval of reports on open connections.
const INTERVAL: Duration = Duration::from_secs(1);

const OPEN: &str = "rc3_connections_open";
const HELD: &str = "rc3_held_bytes";

const SOCKET: [Counted<socket::Stats>; 10] = [
    ("rc3_socket_sent_datagrams", Unit::Count, "datagrams accepted by the kernel", |s| s.sent_datagrams),
    ("rc3_socket_send_syscalls", Unit::Count, "calls to send them", |s| s.send_syscalls),
    ("rc3_socket_send_would_block", Unit::Count, "sends that met a full buffer", |s| s.send_would_block),
    ("rc3_socket_send_drops", Unit::Count, "datagrams refused by host or route", |s| s.send_drops),
    ("rc3_socket_received_datagrams", Unit::Count, "datagrams received", |s| s.received_datagrams),
    ("rc3_socket_recv_syscalls", Unit::Count, "calls that received some", |s| s.recv_syscalls),
    ("rc3_socket_recv_errors", Unit::Count, "calls to receive that failed and are repeated", |s| {
        s.recv_errors
    }),
    ("rc3_socket_fragmented_datagrams", Unit::Count, "datagrams received in fragments", |s| {
        s.fragmented_datagrams
    }),
    ("rc3_socket_exact_leading_lens", Unit::Count, "whose leading fragment was seen", |s| {
        s.exact_leading_lens
    }),
    ("rc3_socket_recv_overflows", Unit::Count, "dropped because the receive buffer was full", |s| {
        s.recv_overflows
    }),
];

fn describe() {
    connection::describe();
    counter::describe(&SOCKET);
    handed_over::describe();
    describe_gauge!(OPEN, Unit::Count, "open connections");
    describe_gauge!(HELD, Unit::Bytes, "memory used because of peers");
}

/// Current values of an endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndpointGauges {
    /// Open connections.
    pub(crate) open_connections: usize,
    /// Those of them that followed a router's rate at the last report.
    pub(crate) steered_connections: usize,
    /// Memory used because of peers.
    pub(crate) held_bytes: u64,
}

sums!(EndpointGauges: open_connections, steered_connections, held_bytes);

/// The endpoint's own part.
#[derive(Debug, Default)]
pub(crate) struct EndpointReporter {
    next: Option<Instant>,
    /// The primary's socket and the one for low levels.
    last: [socket::Stats; 2],
    last_detours: Detours,
}

impl EndpointReporter {
    /// Whether it is time to report.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// Reports; `sockets` are the primary's and the one for low levels.
    pub(crate) fn report(
        &mut self,
        gauges: &EndpointGauges,
        sockets: [Option<socket::Stats>; 2],
        detours: Detours,
        now: Instant,
    ) {
        if self.next.is_none() {
            describe();
        }
        self.next = Some(now + INTERVAL);
        report_detours(detours, &mut self.last_detours);
        gauge!(OPEN).set(gauges.open_connections as f64);
        gauge!(HELD).set(gauges.held_bytes as f64);
        kickass::report_steered(gauges.steered_connections);
        for ((name, stats), last) in ["primary", "low"].into_iter().zip(sockets).zip(&mut self.last) {
            let Some(stats) = stats else { continue };
            counter::report(&SOCKET, &stats, Some(last), &[Label::new("socket", name)]);
            *last = stats;
        }
    }
}
