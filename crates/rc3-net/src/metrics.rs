//! Counters of the endpoint for whichever recorder the program has installed (docs/OBSERVABILITY.md).
//!
//! Nothing is counted here: once a second, while there is something to do, and when a connection ends, the
//! difference to what was last reported is taken from [`ConnectionStats`] and [`socket::Stats`].

use std::time::{Duration, Instant};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use rc3_core::{ConnectionStats, KickAssMode, KickAssStats};

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

/// Of connections that follow the rates of routers.
const KICKASS: [Counted<KickAssStats>; 2] = [
    ("rc3_kickass_signals_received", Unit::Count, "rates that routers told", |s| s.signals),
    (
        "rc3_kickass_connections_without_fragments",
        Unit::Count,
        "connections that fragments did not reach",
        |s| u64::from(!s.fragments),
    ),
];

const SWITCHES: &str = "rc3_kickass_mode_changes";
/// Triggers, as qlog has them.
const TRIGGERS: [(&str, Value<KickAssStats>); 3] = [
    ("signal", |s| s.switches.to_kickass),
    ("silence", |s| s.switches.by_silence),
    ("congestion", |s| s.switches.by_congestion),
];
const STEERED_TIME: &str = "rc3_kickass_steered_milliseconds";
const STEERED: &str = "rc3_kickass_connections";
const TOLD_RATE: &str = "rc3_kickass_rate_bits_per_second";

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
    for (name, unit, meaning, _) in KICKASS {
        describe_counter!(name, unit, meaning);
    }
    describe_counter!(STEERED_TIME, Unit::Milliseconds, "in Kick-Ass mode");
    describe_counter!(SWITCHES, Unit::Count, "changes of mode, by what caused them");
    describe_gauge!(STEERED, Unit::Count, "connections in Kick-Ass mode");
    describe_histogram!(TOLD_RATE, Unit::BitsPerSecond, "rate followed, of each connection at each look");
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
        let (last, then) = last.unzip();
        let since = |value: Value<ConnectionStats>| value(stats) - last.as_ref().map_or(0, value);
        for (name, _, _, value) in CONNECTION {
            add(since(value), |count| counter!(name).increment(count));
        }
        for level in 1..stats.sent.levels.len() {
            let sent = stats.sent.levels[level];
            let before = last.map(|last| last.sent.levels[level]).unwrap_or_default();
            let received = stats.received.rlp_bytes[level];
            let received_before = last.map_or(0, |last| last.received.rlp_bytes[level]);
            for (name, count) in [
                (SENT_BY_LEVEL, sent.bytes - before.bytes),
                (SENT_PACKETS_BY_LEVEL, sent.packets - before.packets),
                (DELIVERED_BY_LEVEL, sent.delivered_bytes - before.delivered_bytes),
                (RECEIVED_BY_LEVEL, received - received_before),
            ] {
                add(count, |count| counter!(name, "level" => level.to_string()).increment(count));
            }
        }
        if let Some(kickass) = &stats.kickass {
            let last = last.and_then(|last| last.kickass).zip(then);
            report_kickass(kickass, now, last.as_ref());
        }
    }

    /// As [`Self::report`], for the last time.
    pub(crate) fn report_end(&mut self, stats: &ConnectionStats, now: Instant) {
        self.report(stats, now);
        counter!(CONNECTIONS, "rc3" => if stats.rc3 { "yes" } else { "no" }).increment(1);
        histogram!(RTT).record(stats.path.rtt.as_secs_f64());
    }
}

fn report_kickass(stats: &KickAssStats, now: Instant, last: Option<&(KickAssStats, Instant)>) {
    let since = |value: Value<KickAssStats>| value(stats) - last.map_or(0, |(last, _)| value(last));
    for (name, _, _, value) in KICKASS {
        add(since(value), |count| counter!(name).increment(count));
    }
    for (trigger, value) in TRIGGERS {
        add(since(value), |count| counter!(SWITCHES, "trigger" => trigger).increment(count));
    }
    // Whole milliseconds of the totals, so that no parts of them get lost between.
    let steered = |stats: &KickAssStats, until| stats.steered_until(until).as_millis() as u64;
    let before = last.map_or(0, |(last, then)| steered(last, *then));
    add(steered(stats, now).saturating_sub(before), |time| counter!(STEERED_TIME).increment(time));
    if let (KickAssMode::KickAss, Some(rate)) = (stats.mode, stats.rate) {
        histogram!(TOLD_RATE).record(rate.bits_per_second() as f64);
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
        let (steered, open, held) = shared
            .with(|state| (state.report_metrics(now), state.open_connections(), state.core.held_bytes()));
        gauge!(OPEN).set(open as f64);
        gauge!(HELD).set(held as f64);
        gauge!(STEERED).set(steered as f64);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use rc3_core::{Congestion, Dir, RlpMode, units::Level};
    use rc3_sim::{Datagram, LinkConfig, Pair, PairConfig};

    use super::*;

    /// Bytes of payload of a leading fragment: 2.3 Mbit/s or so.
    const LEADING: u16 = 408;

    /// A router behind the client tells a rate until the middle, and is silent then.
    #[test]
    fn the_modes_of_a_connection_are_reported_once_each() {
        let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 5_000_000);
        config.client.congestion(Congestion::KickAss).rlp(RlpMode::Off);
        let mut pair = Pair::new(config);
        let tell = |leading| {
            move |level: Level, datagram: &mut Datagram| {
                let long = level.is_primary() && datagram.contents.len() > 1000;
                datagram.meta.leading_len = if long { leading } else { None };
                1
            }
        };
        pair.client.set_tamper(Box::new(tell(Some(LEADING))));
        let handle = pair.connect();
        let steps = |pair: &mut Pair, time| {
            let end = pair.now + time;
            while pair.now < end && pair.step() {}
        };
        while pair.client.connection(handle).unwrap().is_handshaking() {
            assert!(pair.step());
        }
        let id = pair.client.with(handle, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(handle, |c| c.write(id, vec![1; 3_000_000].into())).unwrap();

        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let mut reported = Reported::default();
        let mut totals = BTreeMap::<(String, String), u64>::new();
        let mut rates = Vec::new();
        let mut look = |pair: &Pair| {
            let stats = pair.client.connection(handle).unwrap().stats();
            metrics::with_local_recorder(&recorder, || reported.report(&stats, pair.now));
            for (key, _, _, value) in snapshotter.snapshot().into_vec() {
                let labels: String = key.key().labels().map(|label| label.value()).collect();
                match value {
                    DebugValue::Counter(count) => {
                        *totals.entry((key.key().name().to_owned(), labels)).or_default() += count;
                    }
                    DebugValue::Histogram(values) => rates.extend(values.iter().map(|value| value.0)),
                    DebugValue::Gauge(_) => {}
                }
            }
            stats.kickass.unwrap()
        };
        for _ in 0..7 {
            steps(&mut pair, Duration::from_micros(90_700));
            assert_eq!(look(&pair).mode, KickAssMode::KickAss);
        }
        let steered_looks = 7;
        pair.client.set_tamper(Box::new(tell(None)));
        steps(&mut pair, Duration::from_secs(1));
        let stats = look(&pair);
        assert_ne!(stats.mode, KickAssMode::KickAss);

        let total = |name: &str, label: &str| totals.get(&(name.to_owned(), label.to_owned())).copied();
        assert!(stats.signals > 10);
        assert_eq!(total("rc3_kickass_signals_received", ""), Some(stats.signals));
        assert_eq!(total(SWITCHES, "signal"), Some(stats.switches.to_kickass));
        assert_eq!(total(SWITCHES, "silence"), Some(stats.switches.by_silence));
        assert_eq!(total(SWITCHES, "congestion"), None, "nothing was lost");
        assert_eq!(total("rc3_kickass_connections_without_fragments", ""), None);
        let steered = stats.steered_until(pair.now).as_millis() as u64;
        assert!(steered > 600, "{steered}");
        assert_eq!(total(STEERED_TIME, ""), Some(steered));
        let told = stats.rate.unwrap().bits_per_second() as f64;
        assert_eq!(rates, vec![told; steered_looks]);
    }
}
