//! The sender: Kick-Ass mode while routers signal rates, TCP mode otherwise (Kick-Ass §2.3.1 to §2.3.3).
//!
//! In Kick-Ass mode the window is the rate times the round trip, and packets are paced at the rate (§3.1). It ends
//!
//! - on a loss or an ECN mark, caused by a router that does not signal rates. TCP mode starts with half the window and
//!   lasts until the window has grown to the signalled rate;
//!
//! - when no signal arrived for more than a round trip, because the route changed or a signalling router copes with
//!   senders that ignore it. TCP mode starts with the same window, uses slow start up to half of its own earlier window,
//!   and lasts until the next signal. Losses in that time are handled in TCP mode.
//!
//! Each router only lowers signals from upstream, so the lowest rate of the path arrives. When that router stops
//! signalling, the next lowest rate arrives, which may be any number of times higher. A rise that no law makes between
//! two signals therefore comes from another router and is ignored. Several routers on a path are thus no worse than
//! one, and the sender notices that the bottleneck stopped signalling.
//!
//! TCP thus bounds the effect of forged rates. Upwards, because a rate is followed only while nothing is lost.
//! Downwards, because no rate makes a sender slower than one packet per round trip: TCP's smallest window (the loss
//! window, RFC 5681 §3.1) and the purpose of the lowest code (§2.1). Afterwards the sender is no slower than after a
//! timeout. An attacker on the path who shortens fragments does more harm for a moment than by dropping the same
//! packets, but less in the long run (docs/HARDENING.md). No tighter bound is sound: when many flows share a link, low
//! rates and empty queues are normal.
//!
//! Invariant: in Kick-Ass mode the last signal is at most a round trip and a packet interval old as of the latest call.
//! Units: windows are bytes, rates bytes per second.

use std::time::{Duration, Instant};

use rc3_units::Rate;

use super::newreno::NewReno;
use crate::code::Code;

/// Initial state of a [`Sender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderConfig {
    /// Bytes of a full packet.
    pub mtu: u64,
    /// Window before anything is known, in bytes.
    pub initial_window: u64,
    /// Round trip before one has been measured.
    pub initial_rtt: Duration,
}

impl Default for SenderConfig {
    /// Packets of 1500 bytes, ten of them (RFC 6928), and 333 ms (RFC 9002 §6.2.2).
    fn default() -> Self {
        Self { mtu: 1500, initial_window: 15_000, initial_rtt: Duration::from_millis(333) }
    }
}

/// Which mode sets the speed of a [`Sender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Routers set it.
    KickAss,
    /// The sender sets it, as NewReno.
    Tcp(Cause),
}

/// Why a [`Sender`] is in TCP mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No router signalled a rate for a round trip.
    Silence,
    /// A router that signals no rate lost or marked a packet.
    Congestion,
}

/// Round trips without a signal that count as silence after a loss. In TCP mode the window leaves in one burst, so
/// signals are a round trip apart.
const SILENCE: u32 = 2;

/// A rate this many times that of the last signal comes from another router. On an idle link RCP raises its rate by
/// half in a mean round trip (alpha 0.4), and a sender gets a signal once per own round trip, which may be three times
/// the mean.
const RISE_MAX: f64 = 4.0;

/// A congestion controller that follows routers while they signal.
///
/// The transport calls [`Self::on_ack`], [`Self::on_congestion`] and [`Self::on_signal`] on each event, and
/// [`Self::handle_timeout`] at [`Self::poll_timeout`]. It keeps at most [`Self::window`] bytes in flight, and packets
/// [`Self::pacing`] apart.
///
/// ```
/// use std::time::{Duration, Instant};
/// use kickass::{Rate, code::Code, endpoint::{Cause, Mode, Sender, SenderConfig}};
///
/// let (start, rtt) = (Instant::now(), Duration::from_millis(40));
/// let mut sender = Sender::new(SenderConfig::default());
/// assert_eq!((sender.mode(), sender.window()), (Mode::Tcp(Cause::Silence), 15_000));
///
/// // The first acknowledgement brings a signal of about 100 Mbit/s.
/// let now = start + rtt;
/// sender.on_ack(now, start, 1500, true, rtt);
/// sender.on_signal(now, Code::nearest(Rate::from_bits_per_second(100_000_000).unwrap()).unwrap());
/// assert_eq!(sender.mode(), Mode::KickAss);
/// let bdp = (sender.pace().unwrap() * rtt.as_secs_f64()) as u64;
/// assert!(sender.window().abs_diff(bdp) <= 1500);
///
/// // More than a round trip without a signal: NewReno continues from this window.
/// let silent = sender.poll_timeout().unwrap();
/// assert!(silent > now + rtt);
/// sender.handle_timeout(silent);
/// assert_eq!(sender.mode(), Mode::Tcp(Cause::Silence));
/// ```
#[derive(Debug, Clone)]
pub struct Sender {
    mtu: u64,
    rtt: Duration,
    mode: Mode,
    signal: Option<Signal>,
    tcp: NewReno,
    delivered: Delivered,
    /// The highest delivery rate in a round trip since the last congestion, bytes per second.
    carried: f64,
    /// Whether the sender did not use its window at the latest acknowledgement.
    app_limited: bool,
}

/// Bytes acknowledged within a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Delivered {
    /// Beginning of the current round trip.
    since: Option<Instant>,
    now: u64,
    /// Bytes in the one before.
    before: u64,
}

impl Delivered {
    fn on_ack(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        if self.since.is_none_or(|since| now >= since + rtt) {
            *self = Self { since: Some(now), now: 0, before: self.now };
        }
        self.now += bytes;
    }

    fn bytes(&self) -> u64 {
        self.now.max(self.before)
    }
}

/// The signalled rate and when it last arrived.
#[derive(Debug, Clone, Copy)]
struct Signal {
    /// Bytes per second.
    rate: f64,
    at: Instant,
}

impl Sender {
    /// A sender without any signal yet.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            mtu: config.mtu,
            rtt: config.initial_rtt,
            mode: Mode::Tcp(Cause::Silence),
            signal: None,
            tcp: NewReno::new(config.initial_window),
            delivered: Delivered::default(),
            carried: 0.0,
            app_limited: true,
        }
    }

    /// The receiver reported the code of a leading fragment.
    pub fn on_signal(&mut self, now: Instant, code: Code) {
        let rate = code.bytes_per_second();
        if self.is_from_elsewhere(rate) {
            return;
        }
        // After silence, the loss happened at the router of the last signal: a full queue stops its signals (§2.3.2),
        // and this signal ends the silence.
        let silence = self.signal.is_none_or(|before| now > before.at + SILENCE * self.rtt);
        self.signal = Some(Signal { rate, at: now });
        match self.mode {
            Mode::KickAss => {}
            Mode::Tcp(Cause::Congestion) if !silence => self.end_recovery(now),
            Mode::Tcp(_) => self.mode = Mode::KickAss,
        }
    }

    /// `bytes` sent at `sent` were acknowledged, and the round trip is `rtt`. `app_limited`: the window was not used,
    /// so the acknowledgement says nothing about the path.
    pub fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: Duration) {
        self.rtt = rtt;
        self.delivered.on_ack(now, bytes, rtt);
        self.carried = self.carried.max(self.delivered.before as f64 / rtt.as_secs_f64());
        self.app_limited = app_limited;
        self.handle_timeout(now);
        if let Mode::Tcp(_) = self.mode
            && !app_limited
        {
            self.tcp.on_ack(sent, bytes, self.mtu);
        }
        if self.mode == Mode::Tcp(Cause::Congestion) {
            self.end_recovery(now);
        }
    }

    /// A packet sent at `sent` was lost or marked. `persistent`: persistent congestion (RFC 9002 §7.6).
    pub fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool) {
        if self.tcp.answered(sent) && !persistent {
            return;
        }
        if self.mode == Mode::KickAss {
            // Half of the bytes in flight (RFC 5681 §3.1); only the delivered ones show what the path carries.
            self.tcp.go_on_from(self.window().min(self.delivered.bytes()), self.mtu);
        }
        self.tcp.reduce(now, self.mtu, persistent);
        self.carried = 0.0;
        if self.mode == Mode::KickAss {
            self.mode = Mode::Tcp(Cause::Congestion);
        }
    }

    /// The path's MTU is now `mtu` bytes.
    pub fn on_mtu_update(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    /// When the sender has been without a signal for more than a round trip and one packet interval: at low rates not
    /// every round trip has a packet that could carry a signal.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let Mode::KickAss = self.mode else { return None };
        let patience = self.rtt + self.pacing()? + Duration::from_nanos(1);
        self.signal.map(|signal| signal.at + patience)
    }

    /// Falls back to TCP mode if that time has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|until| now >= until) {
            self.tcp.go_on_from(self.window(), self.mtu);
            self.mode = Mode::Tcp(Cause::Silence);
        }
    }

    /// Which mode sets the speed.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The last signalled rate, followed or not.
    pub fn signalled(&self) -> Option<Rate> {
        self.signal.and_then(|signal| Rate::nearest(8.0 * signal.rate))
    }

    /// Bytes that may be in flight: the rate times the round trip, at least a packet; or NewReno's window.
    pub fn window(&self) -> u64 {
        match (self.mode, self.signal) {
            (Mode::KickAss, Some(Signal { rate, .. })) => self.of_a_round_trip(rate).max(self.mtu),
            _ => self.tcp.window,
        }
    }

    /// Pacing rate in Kick-Ass mode (§3.1) in bytes per second: the signalled rate, at least a packet per round trip. In
    /// TCP mode the transport paces.
    pub fn pace(&self) -> Option<f64> {
        let (Mode::KickAss, Some(Signal { rate, .. })) = (self.mode, self.signal) else { return None };
        let least = self.mtu as f64 / self.rtt.as_secs_f64();
        Some(if least.is_finite() { rate.max(least) } else { rate })
    }

    /// Time between two full packets at that pace.
    pub fn pacing(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64(self.mtu as f64 / self.pace()?))
    }

    /// Ends TCP mode after congestion once its window reaches the last signalled rate (§2.3.3). If signals have stopped
    /// since, the next one ends it.
    fn end_recovery(&mut self, now: Instant) {
        if let Some(Signal { rate, at }) = self.signal
            && self.tcp.window >= self.of_a_round_trip(rate)
        {
            let recent = now <= at + self.rtt;
            self.mode = if recent { Mode::KickAss } else { Mode::Tcp(Cause::Silence) };
        }
    }

    /// Whether the rate comes from another router than the last signal: it exceeds the last rate, the delivery rate and
    /// the own window by more than a law rises between two signals. An application-limited sender cannot know.
    fn is_from_elsewhere(&self, rate: f64) -> bool {
        let Some(before) = self.signal.filter(|_| !self.app_limited) else { return false };
        let own = match self.mode {
            Mode::KickAss => 0.0,
            Mode::Tcp(_) => self.tcp.window as f64 / self.rtt.as_secs_f64(),
        };
        rate > RISE_MAX * before.rate.max(own).max(self.carried)
    }

    fn of_a_round_trip(&self, rate: f64) -> u64 {
        (rate * self.rtt.as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn sender() -> Sender {
        Sender::new(SenderConfig { initial_rtt: RTT, ..SenderConfig::default() })
    }

    fn code(megabits: f64) -> Code {
        Code::nearest(Rate::nearest(megabits * 1e6).unwrap()).unwrap()
    }

    #[test]
    fn a_signal_sets_window_and_pace() {
        let start = Instant::now();
        let mut sender = sender();
        assert_eq!(
            (sender.mode(), sender.window(), sender.pacing()),
            (Mode::Tcp(Cause::Silence), 15_000, None)
        );
        sender.on_signal(start, code(10.0));
        assert_eq!(sender.mode(), Mode::KickAss);
        // 10 Mbit/s for 40 ms, and 1500 bytes of it, within the error of a code.
        assert!((48_400..51_600).contains(&sender.window()), "{}", sender.window());
        let gap = sender.pacing().unwrap().as_secs_f64();
        assert!((gap / 0.0012 - 1.0).abs() < 0.033, "{gap}");
    }

    #[test]
    fn a_round_trip_of_silence_is_tcp_with_the_same_window_until_a_signal_comes() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, code(10.0));
        let window = sender.window();
        let patience = RTT + sender.pacing().unwrap();
        sender.handle_timeout(start + patience);
        assert_eq!(sender.mode(), Mode::KickAss, "not more than a round trip");
        let deadline = sender.poll_timeout().unwrap();
        assert_eq!(deadline, start + patience + Duration::from_nanos(1));
        sender.handle_timeout(deadline);
        assert_eq!((sender.mode(), sender.window()), (Mode::Tcp(Cause::Silence), window));
        // A whole window acknowledged is a packet more: congestion avoidance.
        sender.on_ack(start + 2 * RTT, start + RTT, window, false, RTT);
        assert_eq!(sender.window(), window + 1500);
        sender.on_signal(start + 3 * RTT, code(5.0));
        assert_eq!(sender.mode(), Mode::KickAss);
        assert!(sender.window() < window);
    }

    #[test]
    fn a_loss_is_tcp_with_half_the_window_until_it_has_recovered() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, code(10.0));
        let window = sender.window();
        sender.on_ack(start, start, window, false, RTT);
        sender.on_congestion(start + RTT / 2, start, false);
        assert_eq!((sender.mode(), sender.window()), (Mode::Tcp(Cause::Congestion), window / 2));
        sender.on_congestion(start + RTT / 2, start, false);
        assert_eq!(sender.window(), window / 2, "once for what was under way");
        let mut now = start + RTT / 2;
        let mut round_trips = 0;
        while sender.mode() != Mode::KickAss {
            let sent = now + Duration::from_millis(1);
            now += RTT;
            sender.on_signal(now, code(10.0));
            assert!(sender.window() < window, "signals are only recorded");
            sender.on_ack(now, sent, sender.window(), false, RTT);
            round_trips += 1;
        }
        // Half the window, a packet each round trip.
        assert!((16..=18).contains(&round_trips), "{round_trips}");
        assert_eq!(sender.window(), window);
    }

    #[test]
    fn recovery_to_a_rate_that_is_no_longer_signalled_waits_for_the_next_signal() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, code(1.0));
        sender.on_congestion(start + RTT, start, false);
        for round_trip in 3..20 {
            let now = start + round_trip * RTT;
            sender.on_ack(now, now - RTT, sender.window(), false, RTT);
        }
        assert_eq!(sender.mode(), Mode::Tcp(Cause::Silence));
        assert!(sender.window() > 5000, "beyond the old rate: {}", sender.window());
        sender.on_signal(start + 20 * RTT, code(2.0));
        assert_eq!(sender.mode(), Mode::KickAss);
    }

    #[test]
    fn a_loss_at_a_router_that_has_fallen_silent_is_over_when_it_speaks_again() {
        let start = Instant::now();
        let signalled_sender = || {
            let mut sender = sender();
            sender.on_signal(start, code(10.0));
            sender
        };
        // Lost before the sender notices the silence, and after.
        let mut before = signalled_sender();
        before.on_congestion(start + RTT / 2, start, false);
        let mut after = signalled_sender();
        after.handle_timeout(start + 2 * RTT);
        after.on_congestion(start + 2 * RTT, start + RTT, false);
        assert_eq!(after.mode(), Mode::Tcp(Cause::Silence));
        for mut sender in [before, after] {
            assert!(sender.window() < 30_000, "{}", sender.window());
            sender.on_signal(start + 4 * RTT, code(10.0));
            assert_eq!(sender.mode(), Mode::KickAss);
        }
        // A router that keeps signalling is not the one that loses packets.
        let mut sender = signalled_sender();
        sender.on_congestion(start + RTT / 2, start, false);
        for round_trip in 1..5 {
            sender.on_signal(start + round_trip * RTT, code(10.0));
            assert_eq!(sender.mode(), Mode::Tcp(Cause::Congestion));
        }
    }

    #[test]
    fn a_rate_many_times_as_high_is_another_routers_and_ends_no_silence() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, code(2.0));
        // From now on the bottleneck is silent, the sender's uplink is not.
        for step in 1..=40 {
            let now = start + step * RTT / 4;
            sender.on_ack(now, now - RTT, 1500, false, RTT);
            sender.on_signal(now, code(1500.0));
            assert!(sender.window() < 30_000, "{}", sender.window());
        }
        assert_eq!(sender.mode(), Mode::Tcp(Cause::Silence));
        // Losses now happen at the silent router, so this holds at once.
        let now = start + 11 * RTT;
        sender.on_congestion(now, now - RTT, false);
        sender.on_signal(now, code(2.5));
        assert_eq!(sender.mode(), Mode::KickAss);
    }

    #[test]
    fn a_rate_that_rises_as_laws_do_is_followed_and_so_is_any_that_tcp_mode_has_found_itself() {
        let start = Instant::now();
        let mut now = start;
        let mut sender = sender();
        for megabits in [2.0, 5.0, 12.0, 40.0, 150.0] {
            now += RTT;
            sender.on_ack(now, now - RTT, 1500, false, RTT);
            sender.on_signal(now, code(megabits));
            assert_eq!(sender.mode(), Mode::KickAss);
            assert!(
                (sender.signalled().unwrap().bits_per_second() as f64 / 1e6 / megabits - 1.0).abs() < 0.05
            );
        }
        // A fifth of the rate, then silence; its window grows to a quarter of the higher rate.
        sender.on_signal(now, code(10.0));
        while sender.mode() != Mode::KickAss || sender.signalled().unwrap().bits_per_second() < 45_000_000 {
            now += RTT;
            sender.on_ack(now, now - RTT, sender.window(), false, RTT);
            sender.on_signal(now, code(50.0));
            assert!(now < start + 100 * RTT);
        }
    }

    #[test]
    fn a_sender_that_did_not_use_its_window_follows_any_rate() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, code(2.0));
        sender.on_ack(start + RTT, start, 1500, true, RTT);
        sender.on_signal(start + 100 * RTT, code(100.0));
        assert_eq!(sender.mode(), Mode::KickAss);
        assert!(sender.window() > 400_000);
    }

    #[test]
    fn after_a_loss_the_window_is_half_of_what_arrived_in_a_round_trip_not_of_what_was_signalled() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, code(1500.0));
        for packet in 0..40 {
            let now = start + RTT + packet * RTT / 40;
            sender.on_signal(now, code(1500.0));
            sender.on_ack(now, now - RTT, 1500, false, RTT);
        }
        sender.on_congestion(start + 2 * RTT, start + RTT, false);
        assert_eq!((sender.mode(), sender.window()), (Mode::Tcp(Cause::Congestion), 30_000));
    }

    #[test]
    fn no_rate_is_slower_than_a_packet_in_a_round_trip() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_signal(start, Code::MIN);
        // 120 kbit/s would be a packet of 1500 bytes in 100 ms.
        assert_eq!((sender.window(), sender.pacing()), (1500, Some(RTT)));
        assert_eq!(sender.signalled(), Some(Code::MIN.rate()));
    }

    #[test]
    fn a_rate_that_is_signalled_for_a_moment_costs_no_more_than_a_timeout() {
        let start = Instant::now();
        let mut sender = sender();
        for round_trip in 1..4 {
            let now = start + round_trip * RTT;
            sender.on_ack(now, now - RTT, sender.window(), false, RTT);
        }
        assert_eq!(sender.window(), 120_000);
        let mut now = start + 4 * RTT;
        // The second time it has not yet recovered from the first.
        for window in [3000, 6000] {
            sender.on_signal(now, Code::MIN);
            now = sender.poll_timeout().unwrap();
            sender.handle_timeout(now);
            assert_eq!((sender.mode(), sender.window()), (Mode::Tcp(Cause::Silence), 3000));
            now += RTT;
            sender.on_ack(now, now - RTT, window - 3000, false, RTT);
            assert_eq!(sender.window(), window);
        }
        for window in [12_000, 24_000, 48_000] {
            now += RTT;
            sender.on_ack(now, now - RTT, sender.window(), false, RTT);
            assert_eq!(sender.window(), window, "slow start");
        }
        now += RTT;
        sender.on_ack(now, now - RTT, 12_000, false, RTT);
        now += RTT;
        sender.on_ack(now, now - RTT, 60_000, false, RTT);
        assert_eq!(sender.window(), 61_500, "congestion avoidance from half the window on");
    }

    #[test]
    fn without_signals_it_is_newreno() {
        let start = Instant::now();
        let mut sender = sender();
        sender.on_ack(start + RTT, start, 15_000, false, RTT);
        assert_eq!(sender.window(), 30_000, "slow start");
        sender.on_ack(start + 2 * RTT, start + RTT, 30_000, true, RTT);
        assert_eq!(sender.window(), 30_000, "a window that was not used does not grow");
        sender.on_congestion(start + 3 * RTT, start + RTT, false);
        assert_eq!(sender.window(), 15_000);
        sender.on_congestion(start + 4 * RTT, start + RTT, true);
        assert_eq!(sender.window(), 3000, "persistent congestion");
    }

    #[derive(Debug, Clone)]
    enum Event {
        Signal(usize),
        Ack { bytes: u64, app_limited: bool },
        Congestion { persistent: bool },
        Nothing,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (3..=185_usize).prop_map(|steps| Event::Signal(8 * steps)),
            (1..100_000_u64, any::<bool>())
                .prop_map(|(bytes, app_limited)| Event::Ack { bytes, app_limited }),
            any::<bool>().prop_map(|persistent| Event::Congestion { persistent }),
            Just(Event::Nothing),
        ]
    }

    proptest! {
        /// No order of events stops a sender, and Kick-Ass mode always rests on a signal of the last round trip.
        #[test]
        fn rates_are_followed_only_while_they_are_signalled(events in prop::collection::vec((event(), 0..100_u64), 0..200)) {
            let mut now = Instant::now();
            let mut sender = sender();
            let mut signalled = None;
            for (event, pause) in events {
                let sent = now;
                now += Duration::from_millis(pause);
                sender.handle_timeout(now);
                match event {
                    Event::Signal(len) => {
                        sender.on_signal(now, Code::from_len(len).unwrap());
                        signalled = Some(now);
                    }
                    Event::Ack { bytes, app_limited } => sender.on_ack(now, sent, bytes, app_limited, RTT),
                    Event::Congestion { persistent } => {
                        sender.on_congestion(now, sent, persistent);
                        if persistent {
                            prop_assert_ne!(sender.mode(), Mode::KickAss);
                        }
                    }
                    Event::Nothing => {}
                }
                prop_assert!(sender.window() >= 1500);
                if sender.mode() == Mode::KickAss {
                    let gap = sender.pacing();
                    prop_assert!(gap.is_some_and(|gap| gap <= RTT));
                    prop_assert!(signalled.is_some_and(|signalled| now <= signalled + 2 * RTT));
                } else {
                    prop_assert_eq!(sender.poll_timeout(), None);
                }
            }
        }
    }
}
