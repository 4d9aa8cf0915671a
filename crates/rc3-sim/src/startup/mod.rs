//! Fast starts without priority, as congestion controllers: the ones rc3 is compared with.
//!
//! Each is a `FastStartLaw` for the time before the first congestion, in front of quinn-proto's CUBIC, which begins with the
//! window that the law leaves. They are written from the papers and drafts, not from their authors' code; each type lists what
//! it leaves out. Units: bytes of UDP payload, as quinn-proto counts windows.

mod careful_resume;
mod rapid_start;
mod rounds;
mod suss;

use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_core::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig},
};

use careful_resume::CarefulResume;
use rapid_start::RapidStart;
use suss::Suss;

/// What is left of a window after a congestion event (RFC 9438).
const BETA: f64 = 0.7;

/// Packets of an initial window (RFC 6928).
const INITIAL_PACKETS: u64 = 10;

/// A fast start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FastStart {
    /// Like SUSS (SIGCOMM 2024): up to four times per round trip while the spacing of ACKs and the round-trip time allow
    /// it.
    Suss,
    /// Rapid Start (draft-kazuho-ccwg-rapid-start-02): three times per round trip while no queue shows; on loss the
    /// window follows what is delivered.
    RapidStart,
    /// Careful Resume (RFC 9959) with this window remembered, in bytes.
    CarefulResume(u64),
}

impl ControllerFactory for FastStart {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let initial = INITIAL_PACKETS * u64::from(current_mtu);
        match *self {
            Self::Suss => start(current_mtu, Suss::new(initial)),
            Self::RapidStart => start(current_mtu, RapidStart::new(2 * initial)),
            Self::CarefulResume(saved) => start(current_mtu, CarefulResume::new(now, initial, saved)),
        }
    }
}

fn start(mtu: u16, law: impl FastStartLaw) -> Box<dyn Controller> {
    Box::new(Start { mtu, initial: law.window(), phase: StartPhase::Start(law) })
}

/// An acknowledged packet.
#[derive(Debug, Clone, Copy)]
struct Acked {
    now: Instant,
    sent: Instant,
    bytes: u64,
    /// Whether more was in flight than was there to send.
    app_limited: bool,
    /// The least round trip of the connection.
    rtt_min: Duration,
}

/// Packets that were lost, or marked.
#[derive(Debug, Clone, Copy)]
struct Lost {
    now: Instant,
    bytes: u64,
}

/// The window until CUBIC takes over, which it does with the window that either event returns.
trait FastStartLaw: Clone + Send + Sync + 'static {
    /// The window now.
    fn window(&self) -> u64;

    fn on_ack(&mut self, acked: Acked) -> Option<u64>;

    fn on_loss(&mut self, lost: Lost) -> Option<u64>;
}

/// A `FastStartLaw` until the first congestion, then CUBIC.
struct Start<L> {
    mtu: u16,
    initial: u64,
    phase: StartPhase<L>,
}

enum StartPhase<L> {
    Start(L),
    Cubic(Box<dyn Controller>),
}

impl<L> Start<L> {
    /// Lets CUBIC go on with this window in congestion avoidance, as after a congestion event now.
    fn leave(&mut self, now: Instant, window: u64) {
        let window = window.max(2 * u64::from(self.mtu));
        let mut config = CubicConfig::default();
        config.initial_window((window as f64 / BETA) as u64);
        let mut cubic = Arc::new(config).build(now, self.mtu);
        cubic.on_congestion_event(now, now, false, 0);
        self.phase = StartPhase::Cubic(cubic);
    }
}

impl<L: FastStartLaw> Controller for Start<L> {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let left = match &mut self.phase {
            StartPhase::Start(law) => {
                // quinn-proto's minimum begins with the guess of the configuration.
                let rtt_min = rtt.min().min(now.saturating_duration_since(sent));
                law.on_ack(Acked { now, sent, bytes, app_limited, rtt_min })
            }
            StartPhase::Cubic(cubic) => return cubic.on_ack(now, sent, bytes, app_limited, rtt),
        };
        if let Some(window) = left {
            self.leave(now, window);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        let left = match &mut self.phase {
            StartPhase::Start(_) if persistent => Some(0),
            StartPhase::Start(law) => law.on_loss(Lost { now, bytes: lost_bytes }),
            StartPhase::Cubic(cubic) => return cubic.on_congestion_event(now, sent, persistent, lost_bytes),
        };
        if let Some(window) = left {
            self.leave(now, window);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        if let StartPhase::Cubic(cubic) = &mut self.phase {
            cubic.on_mtu_update(new_mtu);
        }
    }

    fn window(&self) -> u64 {
        match &self.phase {
            StartPhase::Start(law) => law.window(),
            StartPhase::Cubic(cubic) => cubic.window(),
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let phase = match &self.phase {
            StartPhase::Start(law) => StartPhase::Start(law.clone()),
            StartPhase::Cubic(cubic) => StartPhase::Cubic(cubic.clone_box()),
        };
        Box::new(Self { phase, ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.initial
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const PACKET: u64 = 1200;

    /// Sends whole windows, each spread over a round trip and acknowledged as it left, for so many round trips; the
    /// window after each.
    fn windows(law: &mut impl FastStartLaw, start: Instant, rounds: u32, queue: Duration) -> Vec<u64> {
        let round = |nth: u32| {
            let packets = u32::try_from(law.window() / PACKET).unwrap();
            let begins = start + RTT * nth;
            for packet in 0..packets {
                let sent = begins + RTT * packet / packets;
                let (now, bytes) = (sent + RTT + queue, PACKET);
                law.on_ack(Acked { now, sent, bytes, app_limited: false, rtt_min: RTT });
            }
            law.window()
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn rapid_start_triples_and_doubles_once_a_queue_shows() {
        let start = Instant::now();
        for (queue, factor) in [(Duration::ZERO, 3), (Duration::from_millis(6), 2)] {
            let mut law = RapidStart::new(20 * PACKET);
            let windows = windows(&mut law, start, 3, queue);
            assert_eq!(windows, [1, 2, 3].map(|nth| 20 * PACKET * u64::pow(factor, nth)));
        }
    }

    #[test]
    fn rapid_start_keeps_of_its_window_what_is_delivered() {
        let start = Instant::now();
        let mut law = RapidStart::new(100 * PACKET);
        let lost = |bytes| Lost { now: start, bytes };
        assert_eq!(law.on_loss(lost(10 * PACKET)), None);
        assert_eq!(law.window(), 63 * PACKET);
        assert_eq!(law.on_loss(lost(30 * PACKET)), None);
        assert_eq!(law.window(), 42 * PACKET);
        // A third at least.
        assert_eq!(law.on_loss(lost(50 * PACKET)), None);
        assert_eq!(law.window(), 33 * PACKET * 7 / 10 + PACKET * 7 / 30);
        let after = start + Duration::from_millis(1);
        let acked = |sent| Acked { now: start + RTT, sent, bytes: PACKET, app_limited: false, rtt_min: RTT };
        assert_eq!(law.on_ack(acked(start)), None);
        assert_eq!(law.on_ack(acked(after)), Some(law.window()));
    }

    #[test]
    fn suss_quadruples_from_the_second_round_on_while_nothing_queues() {
        let start = Instant::now();
        let mut law = Suss::new(10 * PACKET);
        assert_eq!(
            windows(&mut law, start, 3, Duration::ZERO),
            [20, 80, 320].map(|packets| packets * PACKET)
        );
        let mut law = Suss::new(10 * PACKET);
        let queue = Duration::from_millis(10);
        assert_eq!(windows(&mut law, start, 3, queue), [20, 40, 80].map(|packets| packets * PACKET));
    }

    #[test]
    fn careful_resume_jumps_to_half_and_retreats_to_half_of_what_arrived() {
        let start = Instant::now();
        let begin = || CarefulResume::new(start, 10 * PACKET, 400 * PACKET);
        let after = start + Duration::from_millis(1);
        let acked = |sent, now| Acked { now, sent, bytes: PACKET, app_limited: false, rtt_min: RTT };
        let mut law = begin();
        assert_eq!(law.on_ack(acked(after, after + RTT)), None);
        assert_eq!(law.window(), 200 * PACKET);
        for nth in 2..10 {
            law.on_ack(acked(after, after + RTT + Duration::from_millis(nth)));
        }
        assert_eq!(law.on_loss(Lost { now: after + 2 * RTT, bytes: PACKET }), Some(4 * PACKET));
        // Without loss, slow start goes on from there once the jump has come through.
        let mut law = begin();
        for round in 0..4 {
            law.on_ack(acked(after + RTT * round, after + RTT * (round + 1)));
        }
        assert_eq!(law.window(), 200 * PACKET);
        law.on_ack(acked(after + 4 * RTT, after + 5 * RTT));
        assert_eq!(law.window(), 201 * PACKET);
    }

    #[test]
    fn cubic_goes_on_with_the_window_that_a_law_leaves() {
        let now = Instant::now();
        let mut controller = Arc::new(FastStart::RapidStart).build(now, 1200);
        assert_eq!(controller.window(), 24_000);
        controller.on_congestion_event(now, now, true, 1200);
        assert!((2399..=2400).contains(&controller.window()), "{}", controller.window());
    }
}
