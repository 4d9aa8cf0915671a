//! The law behind the interface of quinn-proto's controllers.

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
    congestion::{Controller, ControllerFactory},
};

use super::{Law, Monitor};
use crate::random::{Random, derive};

/// Packets in an interval at least, and its length in round trips (§3.1).
const PACKETS_MIN: f64 = 10.0;
const LENGTH_MIN: f64 = 1.7;
const LENGTH_MAX: f64 = 2.2;
/// Packets in the first round trip (§3.2).
const PACKETS_INITIAL: u64 = 2;

/// Makes a controller for each connection.
#[derive(Debug)]
pub struct Config {
    seed: u64,
    made: AtomicU64,
}

impl Config {
    /// Controllers whose intervals and trials are drawn from this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0) }
    }
}

impl ControllerFactory for Config {
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
    path: Option<Path>,
    /// Lengths of intervals.
    random: Random,
    monitor: Monitor,
}

#[derive(Debug, Clone)]
struct Path {
    rtt: Duration,
    law: Law,
}

impl Allegro {
    /// Begins an interval if the one under way is over.
    fn monitor(&mut self, now: Instant) {
        if let Some(Path { rtt, law }) = &mut self.path
            && self.monitor.is_over(now)
        {
            let trial = law.next();
            let round_trips = LENGTH_MIN + (LENGTH_MAX - LENGTH_MIN) * self.random.unit();
            let packets = PACKETS_MIN * self.mtu as f64 / trial.rate;
            let seconds = (rtt.as_secs_f64() * round_trips).max(packets);
            self.monitor.begin(now, trial, Duration::from_secs_f64(seconds));
        }
    }
}

impl Controller for Allegro {
    fn on_sent(&mut self, now: Instant, _bytes: u64, _last_packet_number: u64) {
        self.monitor(now);
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        let (mtu, seed) = (self.mtu, self.seed);
        let path = self.path.get_or_insert_with(|| {
            let first = (PACKETS_INITIAL * mtu) as f64 / rtt.get().as_secs_f64().max(1e-6);
            Path { rtt: rtt.get(), law: Law::new(first, seed) }
        });
        path.rtt = rtt.get();
        self.monitor.on_ack(sent, bytes);
    }

    fn on_end_acks(&mut self, now: Instant, _in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        if let Some(Path { rtt, law }) = &mut self.path {
            // The time threshold of RFC 9002 §6.1.2: what is later than that was declared lost.
            while let Some((trial, utility)) = self.monitor.poll_result(*rtt / 8) {
                law.on_result(trial, utility);
            }
        }
        self.monitor(now);
    }

    fn on_congestion_event(&mut self, _now: Instant, sent: Instant, _persistent: bool, lost_bytes: u64) {
        self.monitor.on_loss(sent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
    }

    fn window(&self) -> u64 {
        // A packet leaves while in flight + mtu < window.
        let room = self.mtu + 1;
        match (&self.path, self.monitor.trial()) {
            (Some(path), Some(trial)) => {
                let bytes = (trial.rate * path.rtt.as_secs_f64()) as u64;
                bytes.max(PACKETS_INITIAL * self.mtu) + room
            }
            _ => self.initial_window(),
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        PACKETS_INITIAL * self.mtu + self.mtu + 1
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
