//! The delivery rate of the path, by the receiver's clock. Delays of acknowledgments on their way back do not affect
//! it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{round_trips::noise, sent_datagrams::Departed};
use crate::{laws::constants::Law, wire::arrival::Arrival};

/// Arrivals stored.
const ARRIVALS_MAX: usize = 64;
/// The part of a difference of successive one-way times that moves their mean (RFC 3550 §6.4.1).
const JITTER_GAIN: f64 = 1.0 / 16.0;

#[derive(Debug, Clone, Copy)]
struct RatePoint {
    shown: Shown,
    /// When it was proved, by the sender's clock.
    proved: Instant,
    micros: u64,
    bytes: u64,
    departed: Departed,
    /// Datagrams that arrived or were overtaken up to this one, and those that arrived.
    passed: u64,
    came: u64,
}

/// The measured rate, in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
struct MeasuredRate {
    rate: f64,
    /// The certain part of it: a burst that hosts delay or read together looks faster than it was.
    certain: f64,
}

impl MeasuredRate {
    fn of(bytes: u64, micros: u64, resolution: u64) -> Self {
        let over = |micros: u64| bytes as f64 * 1e6 / micros as f64;
        Self { rate: over(micros.max(resolution)), certain: over(micros + 2 * resolution) }
    }

    fn max(self, other: Self) -> Self {
        if other.rate > self.rate { other } else { self }
    }

    /// The one of which more is certain: of two samples that the path limited, the longer one, unless it met others.
    fn surest(self, other: Self) -> Self {
        if other.certain > self.certain { other } else { self }
    }
}

/// Bytes of UDP payload that may have arrived, whatever the peer reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// Those of RLP with receipts.
    pub(super) rlp: u64,
    /// Those of the primary.
    pub(super) primary: u64,
    /// Whether packets arrive in the order in which they left.
    pub(super) in_order: bool,
}

/// Times of the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathTimes {
    pub(super) rtt: Duration,
    /// By how many seconds packets overtake each other.
    pub(super) late: f64,
}

/// The rate of a path, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PathRate {
    pub(super) rate: f64,
    /// Whether the path limited it; otherwise it is a lower bound.
    pub(super) known: bool,
    /// Most bytes of a run in which it was measured: the evidence.
    pub(super) measured: u64,
}

/// Bytes per second.
#[derive(Debug, Default)]
pub(super) struct RateEstimate {
    law: Law,
    /// Bytes that both loops had sent when the newest run began.
    run_began: u64,
    /// The mean difference of successive one-way times, in microseconds.
    jitter: f64,
    points: VecDeque<RatePoint>,
    largest: Largest,
}

/// The largest recent samples.
#[derive(Debug, Clone, Copy, Default)]
struct Largest {
    /// Of this round trip and the one before: of those that the path limited,
    limited: [MeasuredRate; 2],
    /// and of the others, which are only lower bounds.
    taken: [MeasuredRate; 2],
    /// The most bytes of a run in these round trips.
    measured: [u64; 2],
    round_began: Option<Instant>,
}

impl Largest {
    /// The path limited a sample.
    fn limit(&mut self, now: Instant, sample: MeasuredRate, of_run: u64, rtt: Duration) {
        // Only such samples end a round: the sender's own limits do not slow the path.
        if self.round_began.is_none_or(|began| now >= began + rtt) {
            self.round_began = Some(now);
            self.limited = [self.limited[1], MeasuredRate::default()];
            self.taken = [self.taken[1], MeasuredRate::default()];
            self.measured = [self.measured[1], of_run];
        }
        self.limited[1] = self.limited[1].surest(sample);
    }
}

impl RateEstimate {
    pub(super) fn new(law: Law) -> Self {
        Self { law, ..Self::default() }
    }

    /// A datagram that left as `departed` arrived; `passed` datagrams have arrived or were overtaken.
    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        arrival: Arrival,
        departed: Departed,
        shown: Shown,
        passed: u64,
        times: PathTimes,
    ) {
        let Arrival { micros, bytes, datagrams: came, .. } = arrival;
        let point = RatePoint { shown, proved: now, micros, bytes, departed, passed, came };
        let last = self.points.back().copied();
        if let Some(last) = last {
            let between = departed.at.saturating_duration_since(last.departed.at).as_micros() as f64;
            let difference = (micros.saturating_sub(last.micros) as f64 - between).abs();
            self.jitter += (difference - self.jitter) * JITTER_GAIN;
        }
        if last.is_none_or(|last| last.departed.run < departed.run) {
            self.run_began = departed.sent_bytes;
        }
        let span = (times.rtt / self.law.sample_part).as_micros() as u64;
        let is_old = |old: &RatePoint, next: &RatePoint| {
            next.micros + span <= point.micros
                && arrived(next, &point) >= self.law.sample_bytes
                && old.micros <= next.micros
        };
        // Simultaneous arrivals are one point, its end: counting from the first packet of a burst to the last of the
        // next would be too much.
        let at_once =
            |old: &RatePoint, next: &RatePoint| old.micros == next.micros && next.micros < point.micros;
        while self.points.len() >= 2
            && (is_old(&self.points[0], &self.points[1]) || at_once(&self.points[0], &self.points[1]))
        {
            self.points.pop_front();
        }
        if let Some(first) = self.points.front().copied() {
            self.sample(now, first, point, times);
        }
        // However many packets arrive in it, the points reach back beyond the span of a sample: of three, the first and the
        // last are a part of it apart.
        let near = span / (ARRIVALS_MAX as u64 / 4);
        let len = self.points.len();
        let is_near = |point: &RatePoint| {
            self.points[len - 1].micros == point.micros || point.micros < self.points[len - 2].micros + near
        };
        if len >= 2 && is_near(&point) {
            self.points.pop_back();
        }
        if self.points.len() >= ARRIVALS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Packets that a host reads together arrived within this time, in microseconds.
    fn resolution(&self) -> u64 {
        (self.law.host_jitter / 4).as_micros() as u64
    }

    fn sample(&mut self, now: Instant, from: RatePoint, to: RatePoint, PathTimes { rtt, late }: PathTimes) {
        let bytes = arrived(&from, &to);
        // Not in less time than between their proofs, except for noise and for a half of short times, whatever the peer
        // reports.
        let between = to.proved.saturating_duration_since(from.proved);
        let least = between.saturating_sub(noise(&self.law, rtt)).max(between / 2);
        let micros = to.micros.saturating_sub(from.micros).max(least.as_micros() as u64);
        if bytes < self.law.sample_bytes {
            return;
        }
        let of_run = to.departed.sent_bytes.saturating_sub(self.run_began);
        self.largest.measured[1] = self.largest.measured[1].max(of_run);
        let sample = MeasuredRate::of(bytes, micros, self.resolution());
        let sent = to.departed.at.saturating_duration_since(from.departed.at).as_micros() as u64;
        // They arrived more slowly than they left, and RLP had data all the time; or not all arrived: the path limited them.
        let is_late = micros > sent + self.lateness(sent, rtt, late);
        let passed = to.passed.saturating_sub(from.passed);
        let lost = passed.saturating_sub(to.came.saturating_sub(from.came));
        let is_policed = lost * self.law.lost_of >= passed;
        if is_policed || (is_late && from.departed.run == to.departed.run) {
            self.largest.limit(now, sample, of_run, rtt);
        } else {
            self.largest.taken[1] = self.largest.taken[1].max(sample);
        }
    }

    /// By how many microseconds packets that left within `sent` microseconds may arrive later than they left although nothing
    /// limited them: by what hosts and reordering do, and by less than RLP tries beyond a known rate. Bursts after late timers
    /// wait for themselves; a long path has time to tell that from a limit. What left at once waited for nothing else.
    fn lateness(&self, sent: u64, rtt: Duration, late: f64) -> u64 {
        let bursts = self.law.host_lateness.min(rtt / self.law.sample_part / self.law.sample_part);
        let hosts = if sent == 0 { Duration::ZERO } else { bursts }.max(self.law.host_jitter);
        let jitter = (self.law.late_jitters * self.jitter).max(late * 1e6);
        (jitter.max((self.law.gain - 1.0) * sent as f64) as u64).max(hosts.as_micros() as u64)
    }

    /// The path's rate.
    pub(super) fn rate(&self) -> Option<PathRate> {
        let Largest { limited, taken, measured, .. } = self.largest;
        let limited = limited[0].surest(limited[1]).rate;
        let taken = taken[0].max(taken[1]);
        let rate = if limited >= taken.certain { limited } else { limited.max(taken.rate) };
        let measured = measured[0].max(measured[1]);
        (rate > 0.0).then_some(PathRate { rate, known: limited * self.law.known_excess >= rate, measured })
    }
}

/// The bytes that arrived between two points: as reported, but neither what was not sent between them nor what receipts do
/// not show.
fn arrived(from: &RatePoint, to: &RatePoint) -> u64 {
    let reported = to.bytes.saturating_sub(from.bytes);
    let sent = match from.shown.in_order && to.shown.in_order {
        true => to.departed.sent_bytes.saturating_sub(from.departed.sent_bytes),
        false => u64::MAX,
    };
    if from.proved == to.proved || from.shown.in_order != to.shown.in_order {
        // One datagram proves both, or what is shown of the primary is not comparable.
        return reported.min(sent);
    }
    let rlp = to.shown.rlp.saturating_sub(from.shown.rlp);
    let primary = to.shown.primary.saturating_sub(from.shown.primary);
    reported.min(sent).min(rlp + primary)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const TIMES: PathTimes = PathTimes { rtt: RTT, late: 0.0 };

    /// Everything is proved.
    fn all(nth: u64) -> Shown {
        Shown { rlp: (nth + 1) * 100_000, primary: 0, in_order: true }
    }

    /// Packets of 1200 bytes that leave every `sent` microseconds and arrive every `came`.
    fn stream(estimate: &mut RateEstimate, packets: u64, sent: u64, came: impl Fn(u64) -> u64) {
        stream_of(estimate, packets, TIMES, |nth| nth * sent, came);
    }

    /// Packets of 1200 bytes that leave and arrive at these microseconds.
    fn stream_of(
        estimate: &mut RateEstimate,
        packets: u64,
        times: PathTimes,
        left: impl Fn(u64) -> u64,
        came: impl Fn(u64) -> u64,
    ) {
        let start = Instant::now();
        for nth in 0..packets {
            let micros = came(nth);
            let departed = start + Duration::from_micros(left(nth));
            let arrival = Arrival { packet_number: nth, datagrams: nth + 1, bytes: (nth + 1) * 1200, micros };
            let now = start + times.rtt + Duration::from_micros(micros);
            estimate.on_arrival(
                now,
                arrival,
                Departed { at: departed, run: 0, sent_bytes: (nth + 1) * 1200, of_primary: 0 },
                all(nth),
                nth + 1,
                times,
            );
        }
    }

    fn mbits(estimate: &RateEstimate) -> (f64, bool) {
        let PathRate { rate, known, .. } = estimate.rate().expect("a rate");
        (rate * 8e-6, known)
    }

    #[test]
    fn a_burst_comes_at_the_rate_of_the_path() {
        let mut estimate = RateEstimate::default();
        stream(&mut estimate, 16, 0, |nth| nth * 96);
        assert_eq!(mbits(&estimate), (100.0, true));
    }

    #[test]
    fn bursts_that_wait_for_themselves_on_a_long_path_are_no_limit() {
        // Fifteen packets every 3 ms, the last of them 1.4 ms late: half of what the path takes.
        let burst = |nth: u64| nth / 15 * 3000;
        for (rtt, limited) in [(262, false), (60, true)] {
            let mut estimate = RateEstimate::default();
            let times = PathTimes { rtt: Duration::from_millis(rtt), late: 0.0 };
            let left = |nth| burst(nth) + nth % 15;
            stream_of(&mut estimate, 600, times, left, |nth| burst(nth) + nth % 15 * 100);
            assert_eq!(mbits(&estimate).1, limited, "{rtt} ms");
        }
    }

    #[test]
    fn a_train_that_hosts_pushed_together_gives_way_to_a_longer_sample_that_was_limited() {
        let mut estimate = RateEstimate::default();
        // 16 packets as at 107 Mbit/s, then 100 Mbit/s while 120 leave.
        let left = |nth: u64| if nth < 16 { 0 } else { (nth - 15) * 80 };
        let came = |nth: u64| if nth < 16 { nth * 90 } else { 1350 + (nth - 15) * 96 };
        stream_of(&mut estimate, 16, TIMES, left, came);
        let (train, _) = mbits(&estimate);
        let mut estimate = RateEstimate::default();
        stream_of(&mut estimate, 400, TIMES, left, came);
        let (rate, known) = mbits(&estimate);
        assert!(train > 106.0 && (99.0..102.0).contains(&rate) && known, "{train} {rate}");
    }

    #[test]
    fn a_sample_ends_with_its_span_however_many_packets_arrive_in_it() {
        let mut estimate = RateEstimate::default();
        // 2000 packets at 240 Mbit/s, then as many that leave at 480 and arrive at 384: 200 in a sample.
        let left = |nth: u64| if nth < 2000 { nth * 40 } else { 80_000 + (nth - 2000) * 20 };
        let came = |nth: u64| if nth < 2000 { nth * 40 } else { 80_000 + (nth - 2000) * 25 };
        stream_of(&mut estimate, 4000, TIMES, left, came);
        let (rate, known) = mbits(&estimate);
        assert!((375.0..390.0).contains(&rate) && known, "{rate}");
    }

    #[test]
    fn what_comes_as_it_left_is_a_lower_bound() {
        let mut estimate = RateEstimate::default();
        stream(&mut estimate, 60, 1000, |nth| nth * 1000);
        let (rate, known) = mbits(&estimate);
        assert!((rate - 9.6).abs() < 0.1 && !known, "{rate}");
    }

    #[test]
    fn a_burst_that_hosts_pushed_together_gives_way_to_a_longer_sample() {
        let mut estimate = RateEstimate::default();
        // 16 packets of a burst arrive as at 400 Mbit/s, all others at 200: each after 48 microseconds, and they leave
        // after 24.
        let came = |nth: u64| if nth < 16 { nth * 24 } else { 384 + (nth - 16) * 48 };
        stream(&mut estimate, 16, 0, came);
        assert_eq!(mbits(&estimate), (400.0, false));
        let mut estimate = RateEstimate::default();
        stream(&mut estimate, 400, 24, came);
        let (rate, known) = mbits(&estimate);
        // The longer sample includes the burst.
        assert!((190.0..250.0).contains(&rate) && known, "{rate}");
    }

    #[test]
    fn a_sample_covers_its_part_of_the_round_trip_however_many_reports_come() {
        let (start, mut estimate) = (Instant::now(), RateEstimate::default());
        let times = PathTimes { rtt: Duration::from_millis(130), late: 0.0 };
        for nth in 0..800_u64 {
            // At 96 Mbit/s, except those of two milliseconds, which a host passes on together.
            let left = nth * 100;
            let micros = if (600..620).contains(&nth) { 62_000 + nth - 620 } else { left };
            let at = start + Duration::from_micros(left);
            let departed = Departed { at, run: 0, sent_bytes: (nth + 1) * 1200, of_primary: 0 };
            let arrival = Arrival { packet_number: nth, datagrams: nth + 1, bytes: (nth + 1) * 1200, micros };
            let now = start + times.rtt + Duration::from_micros(micros);
            estimate.on_arrival(now, arrival, departed, all(nth), nth + 1, times);
        }
        // Two of the eighteen milliseconds of a sample.
        let (rate, _) = mbits(&estimate);
        assert!((85.0..112.0).contains(&rate), "{rate}");
    }

    #[test]
    fn links_that_collect_packets_do_not_look_fast() {
        // 32 packets at once every 3.84 ms: 80 Mbit/s, sent at twice that.
        let mut estimate = RateEstimate::default();
        stream(&mut estimate, 2000, 60, |nth| nth / 32 * 3840);
        let (rate, known) = mbits(&estimate);
        assert!((40.0..180.0).contains(&rate) && known, "{rate}");
    }

    #[test]
    fn a_policer_is_seen_by_what_is_lost() {
        let mut estimate = RateEstimate::default();
        let start = Instant::now();
        // 200 Mbit/s leave, a tenth of it arrives, without delay.
        for nth in 0..600_u64 {
            let micros = nth * 480;
            let departed = start + Duration::from_micros(micros);
            let arrival =
                Arrival { packet_number: nth * 10, datagrams: nth + 1, bytes: (nth + 1) * 1200, micros };
            let left = Departed { at: departed, run: 0, sent_bytes: (nth + 1) * 12_000, of_primary: 0 };
            estimate.on_arrival(departed + RTT, arrival, left, all(nth), nth * 10 + 1, TIMES);
        }
        let (rate, known) = mbits(&estimate);
        assert!((rate - 20.0).abs() < 0.5 && known, "{rate}");
    }

    #[test]
    fn an_application_that_pauses_does_not_make_the_path_slow_and_each_run_is_evidence_of_its_own() {
        let start = Instant::now();
        let mut estimate = RateEstimate::default();
        // Bursts of seven packets at 100 Mbit/s every 20 ms, with a jitter that comes and goes in 3 ms.
        for nth in 0..700_u64 {
            let (burst, at) = (nth / 7, nth % 7);
            let micros = burst * 20_000 + at * 96 + burst % 2 * 3000;
            let at = start + Duration::from_millis(20 * burst);
            let departed = Departed { at, run: burst, sent_bytes: (nth + 1) * 1200, of_primary: 0 };
            let arrival = Arrival { packet_number: nth, datagrams: nth + 1, bytes: (nth + 1) * 1200, micros };
            estimate.on_arrival(
                start + Duration::from_micros(micros),
                arrival,
                departed,
                all(nth),
                nth + 1,
                TIMES,
            );
        }
        let PathRate { known, measured, .. } = estimate.rate().expect("a rate");
        assert!(!known && measured < 10_000, "{known} {measured}");
    }

    /// Packets of 1200 bytes leave every 100 microseconds; the receiver reports `micros` and `bytes` of each, and proves
    /// `shown` bytes. Each is proved by a datagram of its own.
    fn reported(micros: fn(u64) -> u64, bytes: fn(u64) -> u64, shown: fn(u64) -> u64) -> f64 {
        let (start, mut estimate) = (Instant::now(), RateEstimate::default());
        for nth in 0..2000 {
            let at = start + Duration::from_micros(100 * nth);
            let departed = Departed { at, run: 0, sent_bytes: (nth + 1) * 1200, of_primary: 0 };
            let arrival =
                Arrival { packet_number: nth, datagrams: nth + 1, bytes: bytes(nth), micros: micros(nth) };
            estimate.on_arrival(
                at + RTT,
                arrival,
                departed,
                Shown { rlp: shown(nth), primary: 0, in_order: true },
                nth + 1,
                TIMES,
            );
        }
        estimate.rate().expect("a rate").rate * 8e-6
    }

    #[test]
    fn no_report_gives_a_rate_above_what_was_sent_and_shown() {
        let each = |nth: u64| (nth + 1) * 1200;
        assert!((reported(|nth| nth * 100, each, each) - 96.0).abs() < 1.0);
        // More bytes, fewer receipts, no time.
        assert!((reported(|nth| nth * 100, |nth| nth * 100_000, each) - 96.0).abs() < 1.0);
        assert!((reported(|nth| nth * 100, each, |nth| nth * 600) - 48.0).abs() < 1.0);
        let timeless = reported(|nth| nth, each, each);
        assert!((96.0..=200.0).contains(&timeless), "{timeless}");
    }

    #[test]
    fn a_path_that_slows_down_is_followed() {
        let mut estimate = RateEstimate::default();
        // 100 Mbit/s, then 25.
        stream(
            &mut estimate,
            3000,
            96,
            |nth| if nth < 1000 { nth * 96 } else { 96_000 + (nth - 1000) * 384 },
        );
        let (rate, _) = mbits(&estimate);
        assert!((rate - 25.0).abs() < 1.0, "{rate}");
    }
}
