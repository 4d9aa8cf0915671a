//! Counters of the endpoint for whichever recorder the program has installed (docs/OBSERVABILITY.md).
//!
//! Nothing is counted here: once a second, while there is something to do, and when a connection ends, the
//! difference to what was last reported is taken from [`ConnectionStats`] and [`socket::Stats`].

#[cfg(feature = "kickass")]
mod kickass;

use std::time::{Duration, Instant};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use rc3_core::ConnectionStats;

use crate::{socket, state::Shared};

/// How often living connections are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where a number is.
type Value<T> = fn(&T) -> u64;

/// A counter: name, unit, meaning, and where the number is.
type Counted<T> = (&'static str, Unit, &'static str, Value<T>);

const CONNECTION: [Counted<ConnectionStats>; 12] = [
    ("rc3_primary_sent_bytes", Unit::Bytes, "handed to the primary", |s| s.sent.primary_bytes),
    ("rc3_primary_sent_packets", Unit::Count, "packets the primary sent", |s| s.path.sent_packets),
    ("rc3_primary_lost_packets", Unit::Count, "packets declared lost", |s| s.path.lost_packets),
    ("rc3_primary_congestion_events", Unit::Count, "window reductions", |s| s.path.congestion_events),
    ("rc3_duplicate_sent_bytes", Unit::Bytes, "sent by both loops", |s| s.sent.duplicate_bytes),
    ("rc3_skipped_bytes", Unit::Bytes, "spared the primary by RLP", |s| s.sent.skipped_bytes),
    ("rc3_primary_received_bytes", Unit::Bytes, "brought first by the primary", |s| s.received.primary_bytes),
    ("rc3_duplicate_received_bytes", Unit::Bytes, "came more than once", |s| s.received.duplicate_bytes),
    ("rc3_refused_bytes", Unit::Bytes, "RLP bytes turned away for want of room", |s| {
        s.received.refused_bytes
    }),
    ("rc3_unproven_discarded_datagrams", Unit::Count, "QUIC datagrams of addresses not proven", |s| {
        s.received.unproven_discarded
    }),
    ("rc3_rlp_discarded_datagrams", Unit::Count, "RLP datagrams that did not open", |s| {
        s.received.rlp_discarded
    }),
    ("rc3_sacks_received", Unit::Count, "SACK frames received", |s| s.sent.sacks),
];

const SENT_BY_LEVEL: &str = "rc3_rlp_sent_bytes";
const SENT_PACKETS_BY_LEVEL: &str = "rc3_rlp_sent_packets";
const DELIVERED_BY_LEVEL: &str = "rc3_rlp_delivered_bytes";
const RECEIVED_BY_LEVEL: &str = "rc3_rlp_received_bytes";
const CONNECTIONS: &str = "rc3_connections_closed";
const OPEN: &str = "rc3_connections_open";
const HELD: &str = "rc3_held_bytes";
const RTT: &str = "rc3_rtt_seconds";

const SOCKET: [Counted<socket::Stats>; 9] = [
    ("rc3_socket_sent_datagrams", Unit::Count, "datagrams the kernel took", |s| s.sent_datagrams),
    ("rc3_socket_send_syscalls", Unit::Count, "calls to send them", |s| s.send_syscalls),
    ("rc3_socket_send_would_block", Unit::Count, "sends that met a full buffer", |s| s.send_would_block),
    ("rc3_socket_send_drops", Unit::Count, "datagrams refused by host or route", |s| s.send_drops),
    ("rc3_socket_received_datagrams", Unit::Count, "datagrams received", |s| s.received_datagrams),
    ("rc3_socket_recv_syscalls", Unit::Count, "calls that received some", |s| s.recv_syscalls),
    ("rc3_socket_fragmented_datagrams", Unit::Count, "datagrams that came in fragments", |s| {
        s.fragmented_datagrams
    }),
    ("rc3_socket_exact_leading_lens", Unit::Count, "whose leading fragment was seen", |s| {
        s.exact_leading_lens
    }),
    ("rc3_socket_recv_overflows", Unit::Count, "dropped for want of receive buffer", |s| s.recv_overflows),
];

fn describe() {
    for (name, unit, meaning, _) in CONNECTION {
        describe_counter!(name, unit, meaning);
    }
    for (name, unit, meaning, _) in SOCKET {
        describe_counter!(name, unit, meaning);
    }
    describe_counter!(SENT_BY_LEVEL, Unit::Bytes, "sent by RLP, by level");
    describe_counter!(SENT_PACKETS_BY_LEVEL, Unit::Count, "packets sent by RLP, by level");
    describe_counter!(DELIVERED_BY_LEVEL, Unit::Bytes, "acknowledged by SACK, by level");
    describe_counter!(RECEIVED_BY_LEVEL, Unit::Bytes, "brought first by RLP, by level");
    #[cfg(feature = "kickass")]
    kickass::describe();
    describe_counter!(CONNECTIONS, Unit::Count, "connections that are gone");
    describe_gauge!(OPEN, Unit::Count, "connections that are not gone for good");
    describe_gauge!(HELD, Unit::Bytes, "memory that peers have brought about");
    describe_histogram!(RTT, Unit::Seconds, "smoothed round-trip time when a connection ended");
}

/// What was last reported of a connection, and when.
#[derive(Debug, Default)]
pub(crate) struct Reported(Option<(ConnectionStats, Instant)>);

impl Reported {
    /// Reports what has come since the last time.
    pub(crate) fn report(&mut self, stats: &ConnectionStats, now: Instant) {
        let last = self.0.replace((*stats, now));
        let before = last.as_ref().map(|(before, _)| before);
        let since = |value: Value<ConnectionStats>| value(stats) - before.map_or(0, value);
        for (name, _, _, value) in CONNECTION {
            add(since(value), |count| counter!(name).increment(count));
        }
        for level in 1..stats.sent.levels.len() {
            let sent = stats.sent.levels[level];
            let sent_before = before.map(|before| before.sent.levels[level]).unwrap_or_default();
            let received = stats.received.rlp_bytes[level];
            let received_before = before.map_or(0, |before| before.received.rlp_bytes[level]);
            for (name, count) in [
                (SENT_BY_LEVEL, sent.bytes - sent_before.bytes),
                (SENT_PACKETS_BY_LEVEL, sent.packets - sent_before.packets),
                (DELIVERED_BY_LEVEL, sent.delivered_bytes - sent_before.delivered_bytes),
                (RECEIVED_BY_LEVEL, received - received_before),
            ] {
                add(count, |count| counter!(name, "level" => level.to_string()).increment(count));
            }
        }
        #[cfg(feature = "kickass")]
        if let Some(stats) = &stats.kickass {
            let last = last.as_ref().and_then(|(last, then)| Some((last.kickass?, *then)));
            kickass::report(stats, now, last.as_ref());
        }
    }

    /// Whether the connection followed the rate of a router then.
    #[cfg(feature = "kickass")]
    pub(crate) fn is_steered(&self) -> bool {
        self.0.is_some_and(|(stats, _)| stats.kickass.as_ref().is_some_and(kickass::is_steered))
    }

    /// As [`Self::report`], for the last time.
    pub(crate) fn report_end(&mut self, stats: &ConnectionStats, now: Instant) {
        self.report(stats, now);
        counter!(CONNECTIONS, "rc3" => if stats.rc3 { "yes" } else { "no" }).increment(1);
        histogram!(RTT).record(stats.path.rtt.as_secs_f64());
    }
}

/// Zeroes would only make empty series.
fn add(count: u64, report: impl FnOnce(u64)) {
    if count > 0 {
        report(count);
    }
}

/// The endpoint's own part.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    next: Option<Instant>,
    /// Of the primary's socket and the one for low levels.
    last: [socket::Stats; 2],
}

impl Reporter {
    /// Reports if it is time.
    pub(crate) fn tick(&mut self, shared: &Shared, now: Instant) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        if self.next.is_none() {
            describe();
        }
        self.next = Some(now + INTERVAL);
        self.report(shared, now);
    }

    /// Reports.
    pub(crate) fn report(&mut self, shared: &Shared, now: Instant) {
        shared.with(|state| {
            state.report_metrics(now);
            gauge!(OPEN).set(state.open_connections() as f64);
            gauge!(HELD).set(state.core.held_bytes() as f64);
            #[cfg(feature = "kickass")]
            kickass::report_steered(state.steered_connections());
        });
        let bound = shared.bound();
        let sockets = [("primary", Some(&bound.primary)), ("low", bound.low.as_ref())];
        for ((name, socket), last) in sockets.into_iter().zip(&mut self.last) {
            let Some(stats) = socket.map(socket::AsyncSocket::stats) else { continue };
            for (counted, _, _, value) in SOCKET {
                // The kernel's count of drops wraps, and other sockets begin at zero.
                let count = value(&stats).saturating_sub(value(last));
                add(count, |count| counter!(counted, "socket" => name).increment(count));
            }
            *last = stats;
        }
    }
}
