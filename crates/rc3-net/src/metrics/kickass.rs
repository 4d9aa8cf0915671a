//! Connections that follow signalled rates.

use std::time::Instant;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use rc3_core::{KickAssMode, KickAssStats};

use super::counter::{self, Counted, Value, add};

const COUNTED: [Counted<KickAssStats>; 2] = [
    ("rc3_kickass_signals_received", Unit::Count, "rates signalled by routers", |s| s.signals),
    (
        "rc3_kickass_connections_without_fragments",
        Unit::Count,
        "connections that receive no fragments",
        |s| u64::from(!s.fragments),
    ),
];

const SWITCHES: &str = "rc3_kickass_mode_changes";
/// Triggers, named as in qlog.
const TRIGGERS: [(&str, Value<KickAssStats>); 3] = [
    ("signal", |s| s.switches.to_kickass),
    ("silence", |s| s.switches.by_silence),
    ("congestion", |s| s.switches.by_congestion),
];
const STEERED_TIME: &str = "rc3_kickass_steered_milliseconds";
const STEERED: &str = "rc3_kickass_connections";
const FOLLOWED_RATE: &str = "rc3_kickass_rate_bits_per_second";

pub(super) fn describe() {
    counter::describe(&COUNTED);
    describe_counter!(STEERED_TIME, Unit::Milliseconds, "in Kick-Ass mode");
    describe_counter!(SWITCHES, Unit::Count, "changes of mode, by cause");
    describe_gauge!(STEERED, Unit::Count, "connections in Kick-Ass mode");
    describe_histogram!(
        FOLLOWED_RATE,
        Unit::BitsPerSecond,
        "followed rate of each connection, at each report"
    );
}

/// Reports changes since `last`.
pub(super) fn report(stats: &KickAssStats, now: Instant, last: Option<&(KickAssStats, Instant)>) {
    let before = last.map(|(last, _)| last);
    counter::report(&COUNTED, stats, before, &[]);
    for (trigger, value) in TRIGGERS {
        let switches = (SWITCHES, Unit::Count, "changes of mode, by cause", value);
        counter::report(&[switches], stats, before, &[Label::new("trigger", trigger)]);
    }
    // Whole milliseconds of the totals, so that fractions are not lost.
    let steered = |stats: &KickAssStats, until| stats.steered_until(until).as_millis() as u64;
    let before = last.map_or(0, |(last, then)| steered(last, *then));
    add(steered(stats, now).saturating_sub(before), |time| counter!(STEERED_TIME).increment(time));
    if let (KickAssMode::KickAss, Some(rate)) = (stats.mode, stats.rate) {
        histogram!(FOLLOWED_RATE).record(rate.bits_per_second() as f64);
    }
}

pub(super) fn report_steered(connections: usize) {
    gauge!(STEERED).set(connections as f64);
}

pub(super) fn is_steered(stats: &KickAssStats) -> bool {
    stats.mode == KickAssMode::KickAss
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use rc3_core::{Congestion, Dir, RlpMode, units::Level};
    use rc3_sim::{Datagram, LinkConfig, Pair, PairConfig};

    use super::{super::ConnectionReporter, *};

    /// Payload bytes of a leading fragment: about 2.3 Mbit/s.
    const LEADING: u16 = 408;

    /// A router behind the client signals a rate until the middle, and is silent afterwards.
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
        let mut reported = ConnectionReporter::default();
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
        let followed = stats.rate.unwrap().bits_per_second() as f64;
        assert_eq!(rates, vec![followed; steered_looks]);
    }
}
