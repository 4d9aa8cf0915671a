//! The law behind the interface of quinn-proto's controllers.
//!
//! All that changes the rate happens where a packet has been sent: by then quinn-proto has reported the losses that the
//! acknowledgments before it have shown, which it does after the acknowledgments themselves.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rc3_core::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};

use super::{Monitor, RateSearch};
use crate::random::{Random, derive};

/// Packets in an interval at least, and its length in round trips (§3.1).
const PACKETS_MIN: f64 = 10.0;
const LENGTH_MIN: f64 = 1.7;
const LENGTH_MAX: f64 = 2.2;
/// Packets in the first round trip (§3.2).
const PACKETS_INITIAL: u64 = 2;
/// Packets in a round trip at least: else one that was pressed down could take hours to come back.
const PACKETS_FLOOR: f64 = 1.0;
/// Lower bound of a measured round trip.
const RTT_MIN: Duration = Duration::from_micros(1);
/// What may be in flight, in round trips of the fastest rate: only an outage is to be stopped by it.
const WINDOW_ROUND_TRIPS: f64 = 3.0;
const WINDOW_PACKETS: u64 = 10;

/// Makes a controller for each connection.
#[derive(Debug)]
pub struct PccConfig {
    seed: u64,
    made: AtomicU64,
}

impl PccConfig {
    /// Controllers whose intervals and trials are drawn from this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0) }
    }
}

impl ControllerFactory for PccConfig {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let seed = derive(self.seed, self.made.fetch_add(1, Relaxed));
        Box::new(Allegro {
            seed,
            mtu: current_mtu.into(),
            path: None,
            random: Random::new(derive(seed, 1)),
            monitor: Monitor::default(),
        })
    }
}

#[derive(Debug, Clone)]
struct Allegro {
    seed: u64,
    mtu: u64,
    /// Once a round trip is known.
    path: Option<PathState>,
    /// Lengths of intervals.
    random: Random,
    monitor: Monitor,
}

#[derive(Debug, Clone)]
struct PathState {
    /// When it was measured first.
    since: Instant,
    rtt: Duration,
    law: RateSearch,
}

impl Controller for Allegro {
    fn on_sent(&mut self, now: Instant, _bytes: u64, _last_packet_number: u64) {
        let Some(PathState { rtt, law, .. }) = &mut self.path else { return };
        // The time threshold of RFC 9002 §6.1.2: what is later than that was declared lost.
        while let Some((trial, utility)) = self.monitor.poll_result(*rtt / 8, self.mtu) {
            law.on_result(trial, utility);
        }
        let seconds = rtt.as_secs_f64();
        // A rate that has been chosen is tried at once (§3.1).
        let under_way = self.monitor.trial().filter(|&trial| law.awaits(trial));
        let trial = match under_way {
            Some(trial) if self.monitor.is_void() => Some(trial),
            Some(_) if !self.monitor.is_over(now) => None,
            _ => Some(law.next(PACKETS_FLOOR * self.mtu as f64 / seconds)),
        };
        if let Some(trial) = trial {
            let round_trips = LENGTH_MIN + (LENGTH_MAX - LENGTH_MIN) * self.random.unit();
            let packets = PACKETS_MIN * self.mtu as f64 / trial.rate;
            self.monitor.begin(now, trial, Duration::from_secs_f64((seconds * round_trips).max(packets)));
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        // quinn-proto's estimate follows after each batch of acknowledgments: in the first it is still a guess.
        let known = self.path.as_ref().is_some_and(|path| path.since < now);
        let rtt = if known { rtt.get() } else { now.saturating_duration_since(sent) };
        let rtt = rtt.max(RTT_MIN);
        let (mtu, seed) = (self.mtu, self.seed);
        let path = self.path.get_or_insert_with(|| {
            let law = RateSearch::new((PACKETS_INITIAL * mtu) as f64 / rtt.as_secs_f64(), seed);
            PathState { since: now, rtt, law }
        });
        path.rtt = rtt;
        self.monitor.on_ack(sent, bytes);
    }

    fn on_end_acks(&mut self, _now: Instant, _in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        if app_limited {
            self.monitor.on_app_limited();
        }
    }

    fn on_congestion_event(&mut self, _now: Instant, sent: Instant, _persistent: bool, lost_bytes: u64) {
        // Without bytes it is a mark, which stands for a packet that was dropped (RFC 3168 §5).
        let bytes = if lost_bytes == 0 { self.mtu } else { lost_bytes };
        self.monitor.on_loss(sent, bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
    }

    fn window(&self) -> u64 {
        match (&self.path, self.monitor.fastest()) {
            (Some(path), Some(rate)) => {
                (WINDOW_ROUND_TRIPS * rate * path.rtt.as_secs_f64()) as u64 + WINDOW_PACKETS * self.mtu
            }
            _ => self.initial_window(),
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = self.monitor.trial().map(|trial| (8.0 * trial.rate) as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        // A packet leaves while in flight + mtu < window.
        PACKETS_INITIAL * self.mtu + self.mtu + 1
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
