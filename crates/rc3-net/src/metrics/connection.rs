//! Counters of connections.

use std::time::Instant;

use metrics::{Label, Unit, counter, describe_counter, describe_histogram, histogram};
use rc3_core::{ConnectionStats, LevelStats};

use super::counter::{self, Counted};
use super::kickass;

const CONNECTION: [Counted<ConnectionStats>; 12] = [
    ("rc3_primary_sent_bytes", Unit::Bytes, "handed to the primary", |s| s.sent.primary_bytes),
    ("rc3_primary_sent_packets", Unit::Count, "packets the primary sent", |s| s.path.sent_packets),
    ("rc3_primary_lost_packets", Unit::Count, "packets declared lost", |s| s.path.lost_packets),
    ("rc3_primary_congestion_events", Unit::Count, "window reductions", |s| s.path.congestion_events),
    ("rc3_duplicate_sent_bytes", Unit::Bytes, "sent by both loops", |s| s.sent.duplicate_bytes),
    ("rc3_skipped_bytes", Unit::Bytes, "skipped by the primary because RLP delivered them", |s| {
        s.sent.skipped_bytes
    }),
    ("rc3_primary_received_bytes", Unit::Bytes, "brought first by the primary", |s| s.received.primary_bytes),
    ("rc3_duplicate_received_bytes", Unit::Bytes, "received more than once", |s| s.received.duplicate_bytes),
    ("rc3_refused_bytes", Unit::Bytes, "RLP bytes refused for lack of memory", |s| s.received.refused_bytes),
    ("rc3_unproven_discarded_datagrams", Unit::Count, "QUIC datagrams from addresses not validated", |s| {
        s.received.unproven_discarded
    }),
    ("rc3_rlp_discarded_datagrams", Unit::Count, "RLP datagrams that did not open", |s| {
        s.received.rlp_discarded
    }),
    ("rc3_sacks_received", Unit::Count, "SACK frames received", |s| s.sent.sacks),
];

/// What RLP has sent and received at one level.
type AtLevel = (LevelStats, u64);

const LEVEL: [Counted<AtLevel>; 4] = [
    ("rc3_rlp_sent_bytes", Unit::Bytes, "sent by RLP, by level", |(sent, _)| sent.bytes),
    ("rc3_rlp_sent_packets", Unit::Count, "packets sent by RLP, by level", |(sent, _)| sent.packets),
    ("rc3_rlp_delivered_bytes", Unit::Bytes, "acknowledged by SACK, by level", |(sent, _)| {
        sent.delivered_bytes
    }),
    ("rc3_rlp_received_bytes", Unit::Bytes, "brought first by RLP, by level", |(_, received)| *received),
];

const CONNECTIONS: &str = "rc3_connections_closed";
const RTT: &str = "rc3_rtt_seconds";

pub(super) fn describe() {
    counter::describe(&CONNECTION);
    counter::describe(&LEVEL);
    kickass::describe();
    describe_counter!(CONNECTIONS, Unit::Count, "connections that have ended");
    describe_histogram!(RTT, Unit::Seconds, "smoothed round-trip time when a connection ended");
}

/// The last reported values of a connection, and when.
#[derive(Debug, Default)]
pub(crate) struct ConnectionReporter(Option<(ConnectionStats, Instant)>);

impl ConnectionReporter {
    /// Reports changes since the last time.
    pub(crate) fn report(&mut self, stats: &ConnectionStats, now: Instant) {
        let last = self.0.replace((*stats, now));
        let before = last.as_ref().map(|(before, _)| before);
        counter::report(&CONNECTION, stats, before, &[]);
        for level in 1..stats.sent.levels.len() {
            let at = |stats: &ConnectionStats| (stats.sent.levels[level], stats.received.rlp_bytes[level]);
            let label = Label::new("level", level.to_string());
            counter::report(&LEVEL, &at(stats), before.map(at).as_ref(), &[label]);
        }
        if let Some(stats) = &stats.kickass {
            let last = last.as_ref().and_then(|(last, then)| Some((last.kickass?, *then)));
            kickass::report(stats, now, last.as_ref());
        }
    }

    /// Whether the connection followed a router's rate at that time.
    pub(crate) fn is_steered(&self) -> bool {
        self.0.is_some_and(|(stats, _)| stats.kickass.as_ref().is_some_and(kickass::is_steered))
    }

    /// Like [`Self::report`], for the last time.
    pub(crate) fn report_end(&mut self, stats: &ConnectionStats, now: Instant) {
        self.report(stats, now);
        counter!(CONNECTIONS, "rc3" => if stats.rc3 { "yes" } else { "no" }).increment(1);
        histogram!(RTT).record(stats.path.rtt.as_secs_f64());
    }
}
