//! Kick-Ass in the primary: [`kickass::endpoint::Sender`] as a congestion controller of quinn-proto, and its state for
//! the seam. The connection passes signals in; the pace comes out.
//!
//! In Kick-Ass mode [`crate::laws::departures`] paces, see `controller.rs`.

use std::{
    any::Any,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use kickass::{
    code::Code,
    endpoint::{Cause, Mode, Sender, SenderConfig},
};
use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory},
};

use super::Quic;
use crate::{
    config::TransportConfig,
    laws::{departures::DepartureRate, fragments::Fragments},
    stats::{KickAssStats, SwitchCounts},
};

/// Packets in flight beyond the rate times the round trip: quinn-proto sends only while one more than a full packet
/// fits, and every second packet waits for the next before it is acknowledged (RFC 9000 §13.2.2). Pacing enforces the
/// rate; without these packets the window would prevent it.
const UNACKNOWLEDGED: u64 = 3;

/// An initial window in bytes, as quinn-proto has it (RFC 9002 §7.2 with packets of 1200).
pub(super) const INITIAL_WINDOW: u64 = 12_000;

/// The bits of the first byte that are the same in all Initial packets of QUIC version 1, and their value (RFC 9000
/// §17.2.2).
const INITIAL_MASK: u8 = 0xf0;
const INITIAL: u8 = 0xc0;

/// State shared by the controller and the seam: one per connection.
#[derive(Debug)]
struct Steering {
    sender: Sender,
    fragments: Fragments,
    mtu: u64,
    /// When the current mode began.
    since: Instant,
    /// Time in Kick-Ass mode before that.
    steered: Duration,
    signals: u64,
    counts: SwitchCounts,
    switches: Vec<Switch>,
}

/// A change of mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) at: Instant,
    pub(crate) mode: Mode,
}

/// A handle to it. Only one thread touches a connection at a time.
#[derive(Debug, Clone)]
pub(super) struct SharedSteering(Arc<Mutex<Steering>>);

impl SharedSteering {
    /// The state of a new connection, if routers may signal a rate to it.
    pub(super) fn of(now: Instant, config: &TransportConfig) -> Option<Self> {
        let config = config.steered().then(|| sender_config(config))?;
        Some(Self(Arc::new(Mutex::new(Steering {
            sender: Sender::new(config),
            fragments: Fragments::NEW,
            mtu: config.mtu,
            since: now,
            steered: Duration::ZERO,
            signals: 0,
            counts: SwitchCounts::default(),
            switches: Vec::new(),
        }))))
    }

    /// The factory of its controllers.
    pub(super) fn factory(&self, config: &TransportConfig) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(SteeringFactory { steering: self.clone(), config: sender_config(config) })
    }

    /// The pacing rate, if routers signal one.
    pub(super) fn pace(&self) -> Option<DepartureRate> {
        DepartureRate::from_bytes_per_second(self.lock().sender.pace()?)
    }

    /// When the signals will have been missing for too long.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.lock().sender.poll_timeout()
    }

    /// Handles due timeouts, and returns how many bytes may be in flight.
    pub(super) fn handle_timeout(&self, now: Instant) -> u64 {
        let mut steering = self.lock();
        steering.with_sender(now, |sender| sender.handle_timeout(now));
        steering.window()
    }

    fn lock(&self) -> MutexGuard<'_, Steering> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steering {
    /// Calls the sender, and records a resulting change of mode.
    fn with_sender<T>(&mut self, now: Instant, change: impl FnOnce(&mut Sender) -> T) -> T {
        let before = self.sender.mode();
        let result = change(&mut self.sender);
        let mode = self.sender.mode();
        if mode != before {
            if before == Mode::KickAss {
                self.steered += now.saturating_duration_since(self.since);
            }
            if (mode == Mode::KickAss) != (before == Mode::KickAss) {
                self.since = now;
            }
            match mode {
                Mode::KickAss => self.counts.to_kickass += 1,
                Mode::Tcp(Cause::Silence) => self.counts.by_silence += 1,
                Mode::Tcp(Cause::Congestion) => self.counts.by_congestion += 1,
            }
            self.switches.push(Switch { at: now, mode });
        }
        result
    }

    /// The peer has reported the code of a leading fragment.
    fn on_signal(&mut self, now: Instant, code: Code) {
        self.fragments.on_signal();
        self.signals += 1;
        self.with_sender(now, |sender| sender.on_signal(now, code));
    }

    /// Bytes that may be in flight.
    fn window(&self) -> u64 {
        let beyond = match self.sender.mode() {
            Mode::KickAss => UNACKNOWLEDGED * self.mtu,
            Mode::Tcp(_) => 0,
        };
        self.sender.window() + beyond
    }

    /// Whether a packet of this length is one that routers are likely to fragment.
    fn is_long(&self, bytes: u64) -> bool {
        2 * bytes >= self.mtu
    }

    fn stats(&self) -> KickAssStats {
        KickAssStats {
            mode: self.sender.mode(),
            since: self.since,
            steered: self.steered,
            rate: self.sender.signalled(),
            signals: self.signals,
            switches: self.counts,
            fragments: self.fragments.are_allowed(),
        }
    }
}

/// What a connection that routers may steer has besides.
impl Quic {
    /// What timed out leaves once more.
    pub(super) fn on_probe(&mut self, now: Instant, bytes: usize) {
        if let Some(mut steering) = self.steering()
            && steering.is_long(bytes as u64)
        {
            steering.fragments.on_probe(now);
        }
    }

    /// The peer has reported the code of a leading fragment.
    pub(crate) fn on_signal(&mut self, now: Instant, code: Code) {
        if let Some(mut steering) = self.steering() {
            steering.on_signal(now, code);
            // The controller only gets what quinn-proto knows.
            self.shared.cwnd.store(steering.window(), Relaxed);
        }
    }

    /// Whether the packet that leaves at `now` may be fragmented on its way.
    pub(super) fn may_fragment(&self, now: Instant) -> bool {
        self.steering().is_some_and(|steering| steering.fragments.may_fragment(now))
    }

    /// Whether a client's `datagram` is of its first flight, whose answer brings the first rate. Such datagrams are as
    /// long as the path permits: shorter ones cannot carry high rates. What follows the Initial packet is a packet that
    /// receivers discard (RFC 9000 §14.1). After a probe timeout the length may have been the cause, and quinn-proto's
    /// 1200 bytes stay.
    pub(super) fn opens_handshake(&self, datagram: &[u8]) -> bool {
        let initial = datagram.first().is_some_and(|first| first & INITIAL_MASK == INITIAL);
        initial
            && self.conn.side().is_client()
            && self.conn.stats().frame_rx.crypto == 0
            && self.steering().is_some_and(|steering| !steering.fragments.are_doubted())
    }

    /// A packet of `bytes` that may be fragmented leaves.
    pub(super) fn on_fragmentable(&mut self, now: Instant, bytes: usize) {
        if let Some(mut steering) = self.steering()
            && steering.is_long(bytes as u64)
        {
            steering.fragments.on_sent(now, bytes as u64);
        }
    }

    /// Whether packets may be fragmented on the path.
    pub(crate) fn fragments_allowed(&self) -> bool {
        self.steering().is_some_and(|steering| steering.fragments.are_allowed())
    }

    /// Fragments do not reach this peer.
    pub(crate) fn forbid_fragments(&mut self, now: Instant) {
        if let Some(mut steering) = self.steering() {
            steering.fragments = Fragments::dropped(now);
        }
    }

    /// Whether fragments are known not to reach the peer.
    pub(crate) fn drops_fragments(&self) -> bool {
        self.steering().is_some_and(|steering| steering.fragments.are_dropped())
    }

    /// Changes of mode since the last call.
    pub(crate) fn take_switches(&mut self) -> Vec<Switch> {
        self.steering().map(|mut steering| mem::take(&mut steering.switches)).unwrap_or_default()
    }

    /// Signals and mode, for statistics.
    pub(crate) fn kickass(&self) -> Option<KickAssStats> {
        self.steering().map(|steering| steering.stats())
    }

    fn steering(&self) -> Option<MutexGuard<'_, Steering>> {
        self.steering.as_ref().map(SharedSteering::lock)
    }
}

fn sender_config(config: &TransportConfig) -> SenderConfig {
    SenderConfig {
        mtu: config.mtu().into(),
        initial_window: config.initial_window_bytes().unwrap_or(INITIAL_WINDOW),
        initial_rtt: config.initial_rtt,
    }
}

/// Builds the controllers of a connection. All share one [`Steering`], which starts anew with each: a new path has
/// other routers.
struct SteeringFactory {
    steering: SharedSteering,
    config: SenderConfig,
}

impl ControllerFactory for SteeringFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let config = SenderConfig { mtu: current_mtu.into(), ..self.config };
        let mut steering = self.steering.lock();
        steering.mtu = config.mtu;
        if steering.fragments.are_allowed() {
            steering.fragments = Fragments::NEW;
        }
        steering.with_sender(now, |sender| *sender = Sender::new(config));
        drop(steering);
        Box::new(Steered { steering: self.steering.clone(), initial_window: config.initial_window })
    }
}

/// The controller.
struct Steered {
    steering: SharedSteering,
    initial_window: u64,
}

impl Controller for Steered {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let mut steering = self.steering.lock();
        if steering.is_long(bytes) {
            steering.fragments.on_acked(now, sent);
        }
        steering.with_sender(now, |sender| sender.on_ack(now, sent, bytes, app_limited, rtt.get()));
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        let mut steering = self.steering.lock();
        if steering.fragments.is_retry(sent, lost_bytes) {
            return;
        }
        if persistent && steering.is_long(lost_bytes) {
            steering.fragments.on_persistent_congestion(now);
        }
        steering.with_sender(now, |sender| sender.on_congestion(now, sent, persistent));
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let mut steering = self.steering.lock();
        steering.mtu = new_mtu.into();
        steering.sender.on_mtu_update(new_mtu.into());
    }

    fn window(&self) -> u64 {
        self.steering.lock().window()
    }

    /// quinn-proto clones it for the path of a peer whose port has changed: most likely the same path.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { steering: self.steering.clone(), initial_window: self.initial_window })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
