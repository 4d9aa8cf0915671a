//! Settings of one connection.

pub(super) mod passthrough;

use std::{sync::Arc, time::Duration};

use self::passthrough::{MtuDiscovery, Passthrough};
use super::{Congestion, RlpMode, setters};
use crate::{
    laws::{constants::Law, ladder::Ladder, shares::FLOOR, window::WindowTuner},
    quic::{IdleTimeout, QuicTransport, Side, VarInt, congestion::ControllerFactory},
    shows::shows,
    units::Rate,
    wire::varint::VARINT_MAX,
};

/// Upper bound of each loop's windows: two bandwidth-delay products of 1 Gbit/s and 400 ms, and a quarter more.
const WINDOW_MAX: u64 = 128 << 20;

/// Initial receive window of the primary and initial send window: 1 Gbit/s x 30 ms; slow start begins far below.
const WINDOW_INITIAL: u64 = 4 << 20;

/// Initial window for RLP data. It alone bounds RLP in the first round trip, so it is more than one bandwidth-delay
/// product of 1 Gbit/s and 400 ms.
const RLP_WINDOW_INITIAL: u64 = 64 << 20;

/// Memory for gaps beyond half of the stored bytes: 16,000 gaps of any size.
const OVERHEAD_MAX: u64 = 4 << 20;

/// Longest time that is a setting: quinn-proto computes with multiples of it, without checks.
pub(super) const TIME_MAX: Duration = Duration::from_secs(86_400);

/// Settings of one connection, shared by many.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use rc3_core::{RlpMode, TransportConfig, units::Rate};
/// # let (mut client_config, _) = rc3_sim::identity::identity(&["example"]);
///
/// let mut transport = TransportConfig::default();
/// transport
///     // RLP at once and always, on a network known to honour the marks.
///     .rlp(RlpMode::Trust)
///     .nic_rate(Rate::from_bits_per_second(10_000_000_000))
///     .max_idle_timeout(Some(Duration::from_secs(60).try_into()?))
///     .keep_alive_interval(Some(Duration::from_secs(20)));
/// client_config.transport_config(Arc::new(transport));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TransportConfig {
    pub(crate) rlp: RlpMode,
    pub(crate) early_rlp: bool,
    pub(crate) verdict_age: Duration,
    pub(crate) ladder: Ladder,
    pub(crate) law: Law,
    pub(crate) nic_rate: Option<Rate>,
    pub(crate) rlp_stream_window: u64,
    pub(crate) rlp_window: u64,
    pub(crate) overhead_max: u64,
    pub(crate) congestion: Congestion,
    pub(crate) initial_window: Option<u64>,
    pub(crate) initial_packets: Option<u32>,
    pub(crate) segment_size: Option<u16>,
    pub(crate) paced: bool,
    pub(crate) stream_receive_window: u32,
    pub(crate) receive_window: Option<u32>,
    pub(crate) send_window: u64,
    pub(crate) stream_send_window: u64,
    pub(crate) max_concurrent_bidi_streams: VarInt,
    pub(crate) max_concurrent_uni_streams: VarInt,
    pub(crate) max_idle_timeout: Option<IdleTimeout>,
    pub(crate) keep_alive_interval: Option<Duration>,
    pub(crate) initial_rtt: Duration,
    pub(crate) initial_mtu: u16,
    pub(crate) min_mtu: Option<u16>,
    pub(crate) mtu_discovery: MtuDiscovery,
    pub(crate) datagram_receive_buffer_size: Option<usize>,
    /// Instead of the built-in controllers.
    pub(crate) controller: Option<Arc<dyn ControllerFactory + Send + Sync>>,
    pub(crate) passed: Passthrough<QuicTransport>,
    #[cfg(feature = "qlog")]
    pub(crate) qlog: Option<crate::Qlog>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            rlp: RlpMode::default(),
            early_rlp: true,
            // Routes and access networks change; repeating the test once in ten minutes does little harm.
            verdict_age: Duration::from_secs(600),
            ladder: Ladder::default(),
            law: Law::default(),
            nic_rate: None,
            rlp_stream_window: WINDOW_MAX,
            rlp_window: WINDOW_MAX,
            overhead_max: OVERHEAD_MAX,
            congestion: Congestion::default(),
            initial_window: None,
            initial_packets: None,
            segment_size: None,
            paced: true,
            // One stream may use the whole connection's window, which starts small and grows.
            stream_receive_window: WINDOW_MAX as u32,
            receive_window: None,
            send_window: WINDOW_MAX,
            stream_send_window: u64::MAX,
            // quinn-proto preallocates per stream it allows.
            max_concurrent_bidi_streams: VarInt::from_u32(100),
            max_concurrent_uni_streams: VarInt::from_u32(100),
            max_idle_timeout: Some(VarInt::from_u32(30_000).into()),
            keep_alive_interval: None,
            initial_rtt: Duration::from_millis(333),
            initial_mtu: 1200,
            min_mtu: None,
            mtu_discovery: MtuDiscovery::default(),
            // As quinn-proto: datagrams of one round trip at 100 Mbit/s x 100 ms.
            datagram_receive_buffer_size: Some(1_250_000),
            controller: None,
            passed: Vec::new(),
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

impl TransportConfig {
    setters! {
        /// Whether and how the RLP loop runs. Default: [`RlpMode::Guard`].
        rlp: RlpMode;

        /// Whether RLP carries 0-RTT data too, if the application sends any. Clients: whether to send it; servers: whether
        /// to accept it. The first mebibyte may then be in flight before the server has answered, at the rate that an
        /// earlier connection measured. Default: yes.
        early_rlp: bool;

        /// How long [`RlpMode::Guard`] uses what it has learned about a destination before it tests again.
        /// Default: ten minutes; more than a year counts as a year.
        verdict_age: Duration => verdict_age = verdict_age.min(Duration::from_secs(365 * 86_400));

        /// The number of RLP packets on each level. Default: 40, 400, 4000, ... on seven levels (RC3 §2.1).
        ladder: Ladder;

        /// The speed of the sender's network card. With it, RLP leaves at this rate minus what the primary uses; without
        /// it, as fast as the socket accepts. Set it if the first queue is not on this host.
        nic_rate: Option<Rate>;

        /// Most bytes of one stream that the peer's RLP loop may send beyond what the application has read, if
        /// [`Self::stream_receive_window`] is not less. A peer may send 1 MiB before it knows the limit; what is too much is
        /// refused. Default: 128 MiB.
        rlp_stream_window: u64;

        /// The same for all streams of a connection together: the bound on memory for RLP data, within
        /// [`Self::receive_window`]. The window starts at 64 MiB, which RLP may fill in the first round trip, and grows while
        /// the application keeps up. Default: 128 MiB.
        rlp_window: u64 => rlp_window = rlp_window.min(VARINT_MAX);

        /// Memory in bytes that a connection may use, in each direction, for the records of gaps and small pieces, beyond
        /// half a byte for each stored byte. RLP data and SACKs that need more are ignored: the primary brings that data. A
        /// primary whose own gaps need twice as much commits a fault, and the connection ends. Default: 4 MiB.
        ///
        /// So received and unread data uses at most twice [`Self::receive_window`], plus three times this. Connections that
        /// use more than their share of [`Endpoint::set_memory_max`](crate::Endpoint::set_memory_max) have less: 16 KiB.
        overhead_max: u64;

        /// Congestion controller of the primary. Default: CUBIC.
        congestion: Congestion;

        /// Initial congestion window in bytes; `None` is the controller's own default.
        ///
        /// A packet leaves while `in flight + mtu < window`, so four full packets need `4 * mtu + 1`.
        initial_window: Option<u64>;

        /// Whether the primary spreads a window over the round trip (default) or sends in bursts as the papers'
        /// TCP does.
        paced: bool;

        /// Bytes each of the peer's loops may send on one stream beyond what was read; more than 4 GiB count as 4 GiB. So
        /// the unread bytes of a connection are at most twice this for each open stream. Default: 128 MiB.
        ///
        /// A peer that uses rc3 pauses a stream that nobody reads. A plain one sends until this window or that of the
        /// connection is full, so a smaller one here leaves room for the other streams.
        stream_receive_window: VarInt => stream_receive_window = saturated(stream_receive_window);

        /// Most received and unread bytes of a connection, of both loops together, whatever the peer does; more than 4 GiB
        /// count as 4 GiB. The window of the primary starts at 4 MiB, or at half of this if that is less, and doubles
        /// whenever half of it was read within two round trips. RLP has the rest, at most [`Self::rlp_window`].
        ///
        /// Default: 128 MiB for the primary, enough for 1 Gbit/s x 400 ms, and [`Self::rlp_window`] for RLP.
        receive_window: VarInt => receive_window = Some(saturated(receive_window));

        /// Most bytes a connection stores for sending before writes wait: it starts at 4 MiB and doubles whenever half of
        /// it was sent within two round trips; on a path of a few milliseconds or less it stays smaller, down to 2 MiB. RLP
        /// can send only these bytes. The primary's unacknowledged bytes are bounded by the same number, separately.
        /// Default: 128 MiB.
        send_window: u64;

        /// Most bytes of one stream in the send window. Without it, a stream that the peer does not read fills the window;
        /// others then have up to one more. Default: no limit of its own.
        stream_send_window: u64;

        /// Bidirectional streams the peer may have open at once, at most 262,144. Default 100.
        max_concurrent_bidi_streams: VarInt;

        /// Unidirectional streams the peer may have open at once, at most 262,144. Default 100.
        max_concurrent_uni_streams: VarInt;

        /// Idle time after which a connection is closed. Default 30 s; `None`: never.
        max_idle_timeout: Option<IdleTimeout>;

        /// Interval of keep-alive packets on an idle connection; more than a day counts as a day. Default: never.
        keep_alive_interval: Option<Duration>
            => keep_alive_interval = keep_alive_interval.map(|time| time.min(TIME_MAX));

        /// Round-trip time assumed before the first sample; more than a day counts as a day. Default 333 ms (RFC 9002
        /// §6.2.2).
        initial_rtt: Duration => initial_rtt = initial_rtt.min(TIME_MAX);

        /// UDP payload in bytes assumed to pass. Default 1200 (RFC 9000 §14).
        ///
        /// With [`Congestion::KickAss`] a client's first flight has this length until a probe timeout. Routers cannot signal
        /// rates above 1.25 Gbit/s in packets of 1200 bytes; 1472 bytes carry 10 Gbit/s.
        initial_mtu: u16 => initial_mtu = initial_mtu.max(1200);

        /// Where to log each connection's events as qlog (docs/OBSERVABILITY.md). Default: nowhere.
        #[cfg(feature = "qlog")]
        qlog: Option<crate::Qlog>;
    }
}

impl TransportConfig {
    /// Whether to negotiate rc3 with peers that support it.
    pub(crate) fn speaks_rc3(&self) -> bool {
        self.rlp != RlpMode::Off || self.steered()
    }

    /// Upper bound of received and unread bytes of both loops.
    pub(crate) fn receive_max(&self) -> u64 {
        self.receive_window.map_or_else(|| WINDOW_MAX.saturating_add(self.rlp_window), u64::from)
    }

    /// The primary's part of it, which starts with at most `initial` bytes.
    pub(crate) fn receive_tuner(&self, initial: u64) -> WindowTuner {
        let beside_rlp = if self.speaks_rc3() { self.receive_max() / 2 } else { u64::MAX };
        let initial = initial.min(WINDOW_INITIAL).min(beside_rlp);
        WindowTuner::new(initial, self.receive_window.map_or(WINDOW_MAX, u64::from))
    }

    /// The window in the transport parameters, if [`Self::receive_tuner`] starts with `initial` bytes. Servers always
    /// advertise the same, because clients with 0-RTT rely on what they remember (RFC 9000 §7.4.1), and raise it at once.
    pub(crate) fn advertised_receive(&self, side: Side, initial: u64) -> u64 {
        let window = self.receive_tuner(initial).window;
        if side == Side::Server { window.min(FLOOR) } else { window }
    }

    pub(crate) fn send_tuner(&self) -> WindowTuner {
        WindowTuner::new(WINDOW_INITIAL, self.send_window)
    }

    /// RLP's window, which starts with at most `initial` bytes.
    pub(crate) fn rlp_tuner(&self, initial: u64) -> WindowTuner {
        WindowTuner::new(RLP_WINDOW_INITIAL.min(initial), self.rlp_window)
    }

    /// Most bytes of one stream that RLP may bring beyond what was read.
    pub(crate) fn rlp_stream_max(&self) -> u64 {
        self.rlp_stream_window.min(self.stream_receive_window.into())
    }
}

shows!(TransportConfig: rlp, congestion, paced, mtu_discovery);

/// The greatest window is 4 GiB.
fn saturated(bytes: VarInt) -> u32 {
    u32::try_from(bytes.into_inner()).unwrap_or(u32::MAX)
}
