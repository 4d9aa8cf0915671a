//! A congestion controller around quinn-proto's own ones: it observes the bytes in flight, decides what counts as
//! application-limited, and can disable or replace the pacer.
//!
//! It replaces the pacer if routers signal a rate, or if an external controller has one: quinn-proto's pacer sends a
//! quarter more than a window per round trip, in bursts, and ignores the rate. The law is [`crate::laws::departures`],
//! one packet at a time.
//!
//! Facts of quinn-proto 0.11.19 that it relies on (tests in `rc3-core/tests/integration/primary.rs` check each):
//! - `poll_transmit` calls `window()` exactly when ack-eliciting data waits and no loss probe is due: once for the
//!   window test, and if that passes once more for the pacer. No call and nothing sent: nothing was waiting. One call:
//!   the window is closed. Two: the pacer holds it back.
//! - a packet leaves while `in_flight + mtu < window()`;
//! - the pacer ignores windows above `u32::MAX`;
//! - `on_end_acks` has the exact bytes in flight; in between they follow `on_sent`, `on_ack` and losses;
//! - each path counts its own bytes in flight: after a change of path those of the old one are no longer reported.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};

use crate::laws::{cubic::SlowStartMax, departures::DepartureRate};

/// State shared by the controller and the seam. One per connection; only one thread touches it at a time, but the
/// controller must be `Sync`, hence the atomics.
#[derive(Debug, Default)]
pub(super) struct ControllerState {
    pub(super) cwnd: AtomicU64,
    pub(super) slow_start_max: SlowStartMax,
    pub(super) in_flight: AtomicU64,
    /// Of these, a probe of the path MTU.
    pub(super) probing: AtomicU64,
    mtu: AtomicU64,
    /// How often `window()` was called since this was last cleared.
    pub(super) consulted: AtomicU32,
    /// Whether acknowledgments may open the window, because it, and not the application, limits the sender. Those of the
    /// handshake open none.
    pub(super) window_limited: AtomicBool,
    /// Bytes are handed over late, so quinn's own idea of app-limited is always true and must be replaced.
    pub(super) fed_late: AtomicBool,
    /// Whether the window allows everything.
    pub(super) window_open: AtomicBool,
    /// A [`PacketPacing`].
    pace: AtomicU8,
    /// The controller's pacing rate in bits per second; zero if it has none.
    rate: AtomicU64,
    /// Whether acks arrived since this was last cleared.
    pub(super) acks_came: AtomicBool,
    /// The content of the last acks, for comparing the loops.
    fates: Mutex<Fates>,
    beside: Mutex<RlpBeside>,
}

/// Who paces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PacketPacing {
    /// quinn-proto, or no one.
    Quinn,
    /// rc3, and a packet may leave now.
    Due,
    /// rc3, and none may.
    Hold,
}

/// Send times of packets whose fate was learned since [`ControllerState::take_fates`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fates {
    /// Of the newest acknowledged one, if newer than all before.
    pub(super) acked: Option<Instant>,
    /// Of the newest lost one.
    pub(super) lost: Option<Instant>,
    /// Bytes of all acknowledged ones.
    pub(super) acked_bytes: u64,
    /// As `acked`, but of all calls.
    newest: Option<Instant>,
}

/// RLP's bytes in flight in queues that it shares with the primary: the most of them in a round trip, since a loss shows a
/// round trip after what caused it.
#[derive(Debug, Clone, Copy, Default)]
struct RlpBeside {
    most: u64,
    most_before: u64,
    /// When the round trip of `most` began.
    began: Option<Instant>,
    /// The primary's packets until then share queues with them.
    until: Option<Instant>,
}

impl RlpBeside {
    fn add(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        if self.began.is_none_or(|began| now >= began + rtt) {
            (self.most_before, self.most, self.began) = (self.most, 0, Some(now));
        }
        self.most = self.most.max(bytes);
        self.until = Some(now + rtt);
    }

    fn bytes(&self, sent: Instant) -> u64 {
        let shares = self.until.is_some_and(|until| sent <= until);
        if shares { self.most.max(self.most_before) } else { 0 }
    }
}

impl ControllerState {
    pub(super) fn add_rlp_in_flight(&self, now: Instant, bytes: u64, rtt: Duration) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).add(now, bytes, rtt);
    }

    fn beside(&self, sent: Instant) -> u64 {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).bytes(sent)
    }

    pub(super) fn take_fates(&self) -> Fates {
        let mut fates = self.fates();
        let newest = fates.newest;
        std::mem::replace(&mut *fates, Fates { newest, ..Fates::default() })
    }

    /// When the newest acknowledged packet had left.
    pub(super) fn newest_acked(&self) -> Option<Instant> {
        self.fates().newest
    }

    pub(super) fn set_pace(&self, pace: PacketPacing) {
        self.pace.store(pace as u8, Relaxed);
    }

    pub(super) fn is_held(&self) -> bool {
        self.pace.load(Relaxed) == PacketPacing::Hold as u8
    }

    /// The controller's pacing rate, if it has one.
    pub(super) fn rate(&self) -> Option<DepartureRate> {
        DepartureRate::from_bytes_per_second(self.rate.load(Relaxed) as f64 / 8.0)
    }

    /// A path on which nothing is in flight.
    pub(super) fn on_new_path(&self) {
        self.in_flight.store(0, Relaxed);
        self.probing.store(0, Relaxed);
        self.slow_start_max.set(u64::MAX);
    }

    fn fates(&self) -> MutexGuard<'_, Fates> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Packets that the pacer sends at once.
const PACKETS_IN_BURST: u64 = 10;

/// Limit of an initial window of ten packets, in bytes, unless two packets are more (RFC 9002 §7.2).
const INITIAL_WINDOW_BYTES: u64 = 14_720;

/// A window that allows no packet. quinn-proto treats zero as an error.
const NOTHING: u64 = 1;

/// How the controllers of one connection differ from those of others.
#[derive(Debug, Clone, Copy)]
pub(super) struct ControllerSettings {
    pub(super) paced: bool,
    /// Whether a small window leaves as a burst despite pacing; not with signalled rates.
    pub(super) bursts: bool,
    /// Whether the pacing rate in the controller's metrics is used. quinn-proto's own controllers have none, except
    /// BBR, which uses quinn-proto's pacer.
    pub(super) names_rate: bool,
    /// RLP carries the bytes: the least window (RFC 9002 §7.2) from the first acknowledgment on, so that a handshake takes no
    /// round trip more. Neither acknowledgments nor losses change it.
    pub(super) yields: bool,
    /// The initial window is that of RFC 9002, not one set by the application, without congestion since.
    pub(super) standard_window: bool,
}

/// Builds [`Watched`] controllers; one factory per connection, so a migrated path keeps its `ControllerState`.
pub(super) struct Factory {
    pub(super) inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub(super) shared: Arc<ControllerState>,
    pub(super) settings: ControllerSettings,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        self.shared.on_new_path();
        self.shared.mtu.store(current_mtu.into(), Relaxed);
        let shared = self.shared.clone();
        let watched = Watched { inner, shared, settings: self.settings, path: PathObservations::default() };
        watched.publish();
        Box::new(watched)
    }
}

struct Watched {
    inner: Box<dyn Controller>,
    shared: Arc<ControllerState>,
    settings: ControllerSettings,
    path: PathObservations,
}

/// What a controller has seen of its path.
#[derive(Debug, Clone, Copy, Default)]
struct PathObservations {
    /// Whether discovery has found a larger path MTU. Simulations set it, so that windows there are those of the inner
    /// controllers.
    mtu_grew: bool,
    /// Send time of the newest packet acknowledged so far.
    newest_acked: Option<Instant>,
    /// The same, if it belongs to the current acks.
    acked: Option<Instant>,
    /// Bytes of the same.
    acked_bytes: u64,
    /// Losses of packets sent until then were caused by RLP and do not reduce the window.
    forgiven: Option<Instant>,
    /// Whether the next congestion event counts, even if RLP caused it.
    strict: bool,
}

impl Watched {
    fn app_limited(&self, quinn: bool) -> bool {
        if self.shared.fed_late.load(Relaxed) { !self.shared.window_limited.load(Relaxed) } else { quinn }
    }

    fn landed(&self, bytes: u64) {
        let in_flight = self.shared.in_flight.load(Relaxed);
        self.shared.in_flight.store(in_flight.saturating_sub(bytes), Relaxed);
    }

    /// Whether a loss of packets sent at `sent` is attributed to RLP instead of the window: RLP has more than half as
    /// many bytes in flight. At most every other event is ignored, so that too large a window shrinks. Events are those
    /// of RFC 9002 §7.3.2.
    fn forgives(&mut self, now: Instant, sent: Instant) -> bool {
        if self.path.forgiven.is_some_and(|until| sent <= until) {
            return true;
        }
        let rlp = self.shared.beside(sent);
        self.path.strict = !self.path.strict && 2 * rlp > self.shared.in_flight.load(Relaxed);
        if self.path.strict {
            self.path.forgiven = Some(now);
        }
        self.path.strict
    }

    /// At least two packets (RFC 9002 §7.2), plus a byte for quinn-proto's window test. The inner controllers lack that
    /// byte, so only one packet leaves and its acknowledgment is delayed by 25 ms. An initial window is recalculated
    /// when packets grow (RFC 9002 §7.2).
    fn cwnd(&self) -> u64 {
        let mtu = self.shared.mtu.load(Relaxed);
        if self.settings.yields && self.path.newest_acked.is_some() {
            return 2 * mtu + 1;
        }
        let least = match (self.path.mtu_grew, self.settings.standard_window) {
            (false, _) => 0,
            (true, false) => 2 * mtu + 1,
            (true, true) => (PACKETS_IN_BURST * mtu).min(INITIAL_WINDOW_BYTES.max(2 * mtu)) + 1,
        };
        self.inner.window().max(least)
    }

    /// quinn-proto's pacer waits until its bucket of ten or more packets is full before it sends the next one. With a
    /// smaller window it would wait for several round trips. RFC 9002 §7.7 allows an initial window, which is ten
    /// packets, to leave at once.
    fn is_one_burst(&self, cwnd: u64) -> bool {
        self.settings.bursts && cwnd <= PACKETS_IN_BURST * self.shared.mtu.load(Relaxed)
    }

    /// Whether the window has room for one more packet, with `batched` packets made since the bytes in flight were
    /// counted.
    fn has_room(&self, cwnd: u64, batched: u64, burst: bool) -> bool {
        let mtu = self.shared.mtu.load(Relaxed);
        let filled = self.shared.in_flight.load(Relaxed) + (batched + 1) * mtu;
        // quinn-proto's test excludes the last packet of a window of whole packets.
        filled < cwnd || (burst && filled == cwnd)
    }

    fn publish(&self) {
        self.shared.cwnd.store(self.cwnd(), Relaxed);
        if self.settings.names_rate {
            let rate = self.inner.metrics().pacing_rate;
            self.shared.rate.store(rate.unwrap_or(0), Relaxed);
        }
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        // Called for ack-only packets too, which are not in flight; those never ask for the window.
        if self.shared.consulted.load(Relaxed) > 0 {
            self.shared.in_flight.fetch_add(bytes, Relaxed);
        }
        self.inner.on_sent(now, bytes, last_packet_number);
        if self.settings.names_rate {
            self.publish();
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.landed(bytes);
        self.path.acked_bytes += bytes;
        if self.path.newest_acked.is_none_or(|newest| newest < sent) {
            self.path.newest_acked = Some(sent);
            self.path.acked = Some(sent);
        }
        let app_limited = self.app_limited(app_limited);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.shared.in_flight.store(in_flight, Relaxed);
        self.shared.acks_came.store(true, Relaxed);
        let (acked, bytes) = (self.path.acked.take(), std::mem::take(&mut self.path.acked_bytes));
        let mut fates = self.shared.fates();
        fates.acked = acked.or(fates.acked);
        fates.newest = acked.or(fates.newest);
        fates.acked_bytes += bytes;
        drop(fates);
        let app_limited = self.app_limited(app_limited);
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        self.publish();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.landed(lost_bytes);
        // Without bytes it is an ECN mark.
        if lost_bytes > 0 {
            self.shared.fates().lost = Some(sent);
        }
        self.settings.standard_window = false;
        if !is_persistent_congestion && lost_bytes > 0 && self.forgives(now, sent) {
            return;
        }
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.publish();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let before = self.shared.mtu.swap(new_mtu.into(), Relaxed);
        self.path.mtu_grew |= u64::from(new_mtu) > before;
        // The probe was acknowledged, or the search is over.
        self.shared.probing.store(0, Relaxed);
        self.inner.on_mtu_update(new_mtu);
        self.publish();
    }

    fn window(&self) -> u64 {
        // Two calls for each packet that leaves.
        let batched = u64::from(self.shared.consulted.fetch_add(1, Relaxed) / 2);
        let burst = self.is_one_burst(self.cwnd());
        let cwnd = self.cwnd() + self.shared.probing.load(Relaxed);
        let everything = u64::from(u32::MAX) + 1 + cwnd;
        if self.shared.window_open.load(Relaxed) {
            return everything;
        }
        if self.shared.is_held() {
            return NOTHING;
        }
        // The pacer allows everything above u32::MAX; the window test is made here instead.
        let unpaced =
            !self.settings.paced || burst || self.shared.pace.load(Relaxed) == PacketPacing::Due as u8;
        if unpaced && self.has_room(cwnd, batched, burst) { everything } else { cwnd }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        if self.settings.yields {
            metrics.congestion_window = self.cwnd();
        }
        metrics
    }

    /// quinn-proto clones it for the path of a peer whose port has changed, on which nothing is in flight.
    fn clone_box(&self) -> Box<dyn Controller> {
        self.shared.on_new_path();
        Box::new(Self {
            inner: self.inner.clone_box(),
            shared: self.shared.clone(),
            settings: self.settings,
            path: PathObservations { forgiven: None, strict: false, ..self.path },
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::congestion::NewRenoConfig;

    use super::*;

    fn controller(shared: &Arc<ControllerState>, now: Instant) -> Box<dyn Controller> {
        let mut inner = NewRenoConfig::default();
        inner.initial_window(100_000);
        shared.fed_late.store(true, Relaxed);
        let settings = ControllerSettings {
            paced: true,
            bursts: true,
            names_rate: false,
            yields: false,
            standard_window: true,
        };
        let factory = Factory { inner: Arc::new(inner), shared: shared.clone(), settings };
        Arc::new(factory).build(now, 1200)
    }

    #[test]
    fn every_other_event_beside_much_of_rlp_changes_no_window() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let shared = Arc::new(ControllerState::default());
        let mut controller = controller(&shared, start);
        shared.in_flight.store(10_000, Relaxed);
        let rtt = Duration::from_millis(40);
        // RLP's bytes in flight at the end.
        let mut lose = |sent, now, lost, rlp: u64| {
            let before = shared.cwnd.load(Relaxed);
            shared.add_rlp_in_flight(at(now), rlp, rtt);
            controller.on_congestion_event(at(now), at(sent), false, lost);
            before > shared.cwnd.load(Relaxed)
        };
        assert!(!lose(1, 40, 1, 8000));
        assert!(!lose(30, 45, 1, 8000), "of the same event");
        assert!(lose(50, 90, 1, 8000), "the next one counts");
        assert!(!lose(100, 140, 1, 0), "RLP had many in flight a round trip before");
        assert!(lose(150, 190, 1, 100), "the next one counts");
        assert!(lose(200, 240, 1, 100), "RLP has had too few for two round trips");
        assert!(lose(250, 290, 0, 8000), "marks of congestion always count");
        let before = shared.cwnd.load(Relaxed);
        controller.on_congestion_event(at(380), at(340), false, 1);
        assert!(before > shared.cwnd.load(Relaxed), "RLP was gone when it was sent");
    }
}
