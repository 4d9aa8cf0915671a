//! CUBIC (RFC 9438).
//!
//! Slow start ends at the first congestion event or at a limit from outside: RLP measures the path while slow start is
//! under way, and a window that has filled it needs no loss to show that.
//!
//! Undo after a spurious loss (RFC 9438 §4.9) is missing: quinn-proto 0.11 forgets packets that it declared lost, and
//! no controller sees their acknowledgment.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};

/// What is left of a window after a congestion event (RFC 9438 §4.6).
const BETA: f64 = 0.7;

/// Growth in packets per cubic second (RFC 9438 §5.1).
const C: f64 = 0.4;

/// Packets that a flow like Reno's gains with each window, until it has reached the window before the last event
/// (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Most that a window grows in a round trip (RFC 9438 §4.2).
const TARGET_MAX: f64 = 1.5;

/// The largest window of the first slow start, in bytes, which may change at any time. `u64::MAX` is none.
#[derive(Debug, Clone)]
pub(crate) struct SlowStartMax(Arc<AtomicU64>);

impl SlowStartMax {
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Default for SlowStartMax {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

/// Builds a CUBIC for each path.
#[derive(Debug)]
pub(crate) struct CubicConfig {
    /// Bytes.
    pub(crate) initial_window: u64,
    pub(crate) slow_start_max: SlowStartMax,
}

impl ControllerFactory for CubicConfig {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Cubic::new(self, current_mtu))
    }
}

/// The window of a path. Windows are in bytes.
#[derive(Debug, Clone)]
struct Cubic {
    config: Arc<CubicConfig>,
    mtu: f64,
    window: f64,
    /// Slow start below it: ssthresh.
    threshold: f64,
    /// The last congestion event: losses of packets that left before are part of it.
    event: Option<Instant>,
    /// The plateau of the curve: W_max.
    window_max: f64,
    /// The window at the last event: cwnd_prior.
    window_before: f64,
    curve: Option<Curve>,
}

/// Growth in a stage of congestion avoidance.
#[derive(Debug, Clone, Copy)]
struct Curve {
    began: Instant,
    /// Since when the application limits the sender: such time does not count (RFC 9438 §5.8).
    limited: Option<Instant>,
    /// Seconds to the plateau: K.
    plateau: f64,
    /// The window that a flow like Reno's would have: W_est.
    reno: f64,
}

/// Acknowledged bytes.
#[derive(Debug, Clone, Copy)]
struct Acked {
    now: Instant,
    sent: Instant,
    bytes: f64,
    app_limited: bool,
    rtt: Duration,
}

impl Cubic {
    fn new(config: Arc<CubicConfig>, mtu: u16) -> Self {
        Self {
            mtu: mtu.into(),
            window: config.initial_window as f64,
            config,
            threshold: f64::INFINITY,
            event: None,
            window_max: 0.0,
            window_before: 0.0,
            curve: None,
        }
    }

    fn window_min(&self) -> f64 {
        2.0 * self.mtu
    }

    fn is_in_slow_start(&self) -> bool {
        // Only the first slow start has no threshold.
        let max = if self.threshold.is_finite() { u64::MAX } else { self.config.slow_start_max.get() };
        self.window < self.threshold.min(max.max(self.config.initial_window) as f64)
    }

    fn is_of_last_event(&self, sent: Instant) -> bool {
        self.event.is_some_and(|event| sent <= event)
    }

    fn on_acked(&mut self, acked: Acked) {
        if self.is_of_last_event(acked.sent) {
            return;
        }
        if !self.is_in_slow_start() {
            self.avoid_congestion(acked);
        } else if !acked.app_limited {
            self.curve = None;
            self.window += acked.bytes;
        }
    }

    fn avoid_congestion(&mut self, acked: Acked) {
        let Acked { now, bytes, rtt, .. } = acked;
        let mut curve = self.curve.unwrap_or_else(|| self.begin_curve(now));
        if acked.app_limited {
            curve.limited.get_or_insert(now);
        } else {
            curve.skip_limited(now);
            let elapsed = now.saturating_duration_since(curve.began);
            let alpha = if curve.reno < self.window_before { ALPHA } else { 1.0 };
            curve.reno += alpha * self.mtu * bytes / self.window;
            let cubic = |after: Duration| curve.packets(after) * self.mtu + self.window_max;
            self.window = if cubic(elapsed) < curve.reno {
                self.window.max(curve.reno)
            } else {
                let target = cubic(elapsed + rtt).clamp(self.window, TARGET_MAX * self.window);
                self.window + (target - self.window) * bytes / self.window
            };
        }
        self.curve = Some(curve);
    }

    fn begin_curve(&mut self, now: Instant) -> Curve {
        self.window_max = self.window_max.max(self.window);
        let below = (self.window_max - self.window) / self.mtu;
        Curve { began: now, limited: None, plateau: (below / C).cbrt(), reno: self.window }
    }

    fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool) {
        if self.is_of_last_event(sent) {
            return;
        }
        (self.event, self.curve) = (Some(now), None);
        // Fast convergence (RFC 9438 §4.7).
        let kept = if self.window < self.window_max { (1.0 + BETA) / 2.0 } else { 1.0 };
        (self.window_max, self.window_before) = (kept * self.window, self.window);
        self.threshold = (BETA * self.window).max(self.window_min());
        self.window = self.threshold;
        if persistent {
            // RFC 9002 §7.6.2, RFC 9438 §4.8.
            (self.event, self.window_max) = (None, 0.0);
            self.window = self.window_min();
        }
    }
}

impl Curve {
    /// Packets above the plateau, so long after the begin.
    fn packets(&self, after: Duration) -> f64 {
        C * (after.as_secs_f64() - self.plateau).powi(3)
    }

    fn skip_limited(&mut self, now: Instant) {
        if let Some(since) = self.limited.take() {
            self.began += now.saturating_duration_since(since);
        }
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.on_acked(Acked { now, sent, bytes: bytes as f64, app_limited, rtt: rtt.get() });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, _lost_bytes: u64) {
        self.on_congestion(now, sent, persistent);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.window = self.window.max(self.window_min());
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.threshold.is_finite().then_some(self.threshold as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.config.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1000;
    const RTT: Duration = Duration::from_millis(100);

    /// A window of so many packets, and its limit in slow start.
    fn cubic(packets: u64) -> (Cubic, SlowStartMax) {
        let slow_start_max = SlowStartMax::default();
        let initial_window = packets * u64::from(MTU);
        let config = CubicConfig { initial_window, slow_start_max: slow_start_max.clone() };
        (Cubic::new(Arc::new(config), MTU), slow_start_max)
    }

    impl Cubic {
        fn packets(&self) -> f64 {
            self.window / f64::from(MTU)
        }

        /// A window of acknowledgments after each of some round trips, from `now` on. The time after them.
        fn run(&mut self, mut now: Instant, rtt: Duration, rounds: u32, app_limited: bool) -> Instant {
            for _ in 0..rounds {
                let sent = now;
                now += rtt;
                for _ in 0..self.packets() as u64 {
                    self.on_acked(Acked { now, sent, bytes: MTU.into(), app_limited, rtt });
                }
            }
            now
        }
    }

    fn loses(cubic: &mut Cubic, now: Instant) -> Instant {
        cubic.on_congestion(now, now, false);
        now + Duration::from_nanos(1)
    }

    #[test]
    fn slow_start_doubles_up_to_its_limit_and_goes_on_when_that_rises() {
        let (mut cubic, max) = cubic(10);
        let now = cubic.run(Instant::now(), RTT, 3, false);
        assert_eq!(cubic.packets(), 80.0);
        max.set(100_000);
        let now = cubic.run(now, RTT, 2, false);
        assert!((100.0..103.0).contains(&cubic.packets()), "{}", cubic.packets());
        max.set(200_000);
        let now = cubic.run(now, RTT, 1, false);
        assert!((199.0..203.0).contains(&cubic.packets()), "{}", cubic.packets());
        // It limits no later slow start.
        max.set(0);
        cubic.on_congestion(now, now, true);
        assert_eq!(cubic.packets(), 2.0);
        cubic.run(now + RTT, RTT, 3, false);
        assert_eq!(cubic.packets(), 16.0);
    }

    #[test]
    fn the_window_is_back_at_its_plateau_after_k_seconds() {
        let (mut cubic, _) = cubic(1000);
        let now = loses(&mut cubic, Instant::now());
        assert!((cubic.packets() - 700.0).abs() < 1e-6);
        // K = cbrt(300 / 0.4) = 9.09 s; W(t) = 0.4 (t - K)^3 + 1000 (RFC 9438 §4.2).
        let mut now = cubic.run(now, RTT, 1, false);
        for (rounds, expected) in [(45, 962.0), (45, 1000.0), (45, 1038.0)] {
            now = cubic.run(now, RTT, rounds, false);
            assert!((cubic.packets() / expected - 1.0).abs() < 0.01, "{} for {expected}", cubic.packets());
        }
    }

    #[test]
    fn a_short_round_trip_grows_as_reno_would() {
        let (mut cubic, _) = cubic(100);
        let now = loses(&mut cubic, Instant::now());
        let rtt = Duration::from_millis(1);
        let now = cubic.run(now, rtt, 20, false);
        assert!((cubic.packets() - (70.0 + 20.0 * ALPHA)).abs() < 0.5, "{}", cubic.packets());
        // Back at the window before the event, it gains a packet with each window.
        let now = cubic.run(now, rtt, 37, false);
        let before = cubic.packets();
        assert!((99.5..101.5).contains(&before), "{before}");
        cubic.run(now, rtt, 10, false);
        assert!((cubic.packets() - before - 10.0).abs() < 0.5, "{} after {before}", cubic.packets());
    }

    #[test]
    fn losses_of_one_flight_are_one_event_and_a_second_event_lowers_the_plateau() {
        let (mut cubic, _) = cubic(1000);
        let now = Instant::now() + RTT;
        loses(&mut cubic, now);
        cubic.on_congestion(now + RTT, now, false);
        assert!((cubic.packets() - 700.0).abs() < 1e-6);
        loses(&mut cubic, now + RTT);
        assert!((cubic.packets() - 490.0).abs() < 1e-6);
        assert!((cubic.window_max - 595_000.0).abs() < 1e-3);
    }

    #[test]
    fn time_in_which_the_application_limits_does_not_count() {
        let (mut busy, _) = cubic(1000);
        let start = Instant::now();
        let now = loses(&mut busy, start);
        let mut paused = busy.clone();
        busy.run(now, RTT, 20, false);
        let now = paused.run(now, RTT, 10, false);
        let limited = paused.packets();
        let now = paused.run(now, RTT, 100, true);
        assert_eq!(paused.packets(), limited);
        paused.run(now, RTT, 10, false);
        assert!((paused.packets() / busy.packets() - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_window_grows_by_half_in_a_round_trip_at_most() {
        let (mut cubic, _) = cubic(10);
        let now = loses(&mut cubic, Instant::now());
        let rtt = Duration::from_secs(20);
        let now = cubic.run(now, rtt, 1, false);
        let before = cubic.packets();
        cubic.run(now, rtt, 1, false);
        let grown = cubic.packets() / before;
        assert!((1.4..1.7).contains(&grown), "{grown}");
    }
}
