//! State made for each connection before quinn-proto has it: the state shared with its controller, and its transport
//! configuration.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use quinn_proto as quic;
use quinn_proto::crypto::{ClientConfig as ClientCrypto, ServerConfig as ServerCrypto};

#[cfg(feature = "qlog")]
use super::observed::Observed;
use super::{
    Quic,
    controller::{ControllerSettings, ControllerState, Factory},
    mtu_discovery::Search,
    silence::Silence,
    steering::{INITIAL_WINDOW, SharedSteering},
    validation::Validation,
};
use crate::quic::{ConnectionId, Dir, Side, VarInt};
#[cfg(feature = "qlog")]
use crate::seams::qlog::{Begun, LastPackets, begin};
use crate::seams::tls::sessions::ConnectionSessions;
use crate::{
    config::{Congestion, TransportConfig},
    laws::{cubic::CubicConfig, departures::PacedDepartures, path_mtu::PathMtu, primary_window::Waiting},
    seams::qlog::Trace,
};

/// What an endpoint knows about a connection before it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes that the peer may send at first, at most.
    pub(crate) credit: u64,
    pub(crate) path_mtu: Option<PathMtu>,
    /// Bytes of the peer's first datagram, on a server.
    pub(crate) carried: u16,
}

/// The shared state of a connection and its controller, and the configuration that passes it to quinn-proto.
pub(super) struct Seam {
    shared: Arc<ControllerState>,
    steering: Option<SharedSteering>,
    search: Option<Search>,
    asks: bool,
    pub(super) transport: Arc<quic::TransportConfig>,
    trace: Trace,
    #[cfg(feature = "qlog")]
    packets: Option<LastPackets>,
}

impl Seam {
    #[cfg_attr(not(feature = "qlog"), expect(unused_variables, reason = "for the header of the log"))]
    pub(super) fn new(
        now: Instant,
        config: &TransportConfig,
        side: Side,
        remote: SocketAddr,
        original: ConnectionId,
        bounds: Bounds,
    ) -> Self {
        let Bounds { credit, path_mtu, carried } = bounds;
        let shared = Arc::<ControllerState>::default();
        let steering = SharedSteering::of(now, config);
        let factory = Factory {
            inner: match &steering {
                Some(steering) => steering.factory(config),
                None => controller_factory(config, &shared),
            },
            shared: shared.clone(),
            settings: ControllerSettings {
                paced: config.paced,
                bursts: config.paced && !config.steered(),
                names_rate: config.controller.is_some(),
                yields: config.controller.is_none() && config.congestion == Congestion::Background,
                standard_window: !config.steered()
                    && config.controller.is_none()
                    && config.initial_window_bytes().is_none(),
            },
        };
        let search = (config.segment_size.is_none() && !config.steered())
            .then(|| Search::new(&config.mtu_discovery, remote, path_mtu))
            .flatten();
        #[cfg_attr(not(feature = "qlog"), expect(unused_mut, reason = "only a log has a trace"))]
        let (mut transport, mut trace) =
            (quic_transport(config, factory, remote, search, carried), Trace::default());
        transport.receive_window(varint(config.advertised_receive(side, credit)));
        #[cfg(feature = "qlog")]
        let packets = begin(config.qlog.as_ref(), now, side, remote, original).map(|begun| {
            let Begun { trace: ours, output, packets } = begun;
            let mut qlog = quic::QlogConfig::default();
            qlog.start_time(now).writer(Box::new(output));
            transport.qlog_stream(qlog.into_stream());
            trace = ours;
            packets
        });
        Self {
            shared,
            steering,
            search,
            asks: config.segment_size.is_none(),
            transport: Arc::new(transport),
            trace,
            #[cfg(feature = "qlog")]
            packets,
        }
    }

    /// The sessions of a client, with keys that pass plaintext to the qlog, if there is one.
    pub(super) fn client_crypto(&self, crypto: Arc<dyn ClientCrypto>) -> Arc<dyn ClientCrypto> {
        #[cfg(feature = "qlog")]
        if let Some(packets) = &self.packets {
            return Arc::new(Observed::new(crypto, packets.clone()));
        }
        crypto
    }

    /// The same for a server.
    pub(super) fn server_crypto(&self, crypto: Arc<dyn ServerCrypto>) -> Arc<dyn ServerCrypto> {
        #[cfg(feature = "qlog")]
        if let Some(packets) = &self.packets {
            return Arc::new(Observed::new(crypto, packets.clone()));
        }
        crypto
    }

    pub(super) fn quic(
        self,
        now: Instant,
        conn: quic::Connection,
        validated_before: bool,
        sessions: Option<Arc<ConnectionSessions>>,
    ) -> Quic {
        let frames = ReceivedFrames::of(&conn);
        Quic {
            remote: conn.remote_address(),
            validation: Validation::new(conn.remote_address()),
            rtt_before: None,
            conn,
            validated_before,
            fed: false,
            shared: self.shared,
            waiting: Waiting::ForPacer,
            silence: Silence::new(now),
            asks: self.asks,
            steering: self.steering,
            departures: PacedDepartures::new(now),
            due: u64::MAX,
            departure: None,
            sessions,
            trace: self.trace,
            frames,
            lost_probes: 0,
            search: self.search,
            searched: None,
        }
    }
}

fn controller_factory(
    config: &TransportConfig,
    shared: &ControllerState,
) -> Arc<dyn quic::congestion::ControllerFactory + Send + Sync> {
    macro_rules! with_window {
        ($config:expr) => {{
            let mut inner = $config;
            if let Some(bytes) = config.initial_window_bytes() {
                inner.initial_window(bytes);
            }
            Arc::new(inner)
        }};
    }
    if let Some(factory) = &config.controller {
        return factory.clone();
    }
    match config.congestion {
        // KickAss without signalling routers.
        Congestion::NewReno | Congestion::KickAss => {
            with_window!(quic::congestion::NewRenoConfig::default())
        }
        Congestion::Cubic | Congestion::Background => Arc::new(CubicConfig {
            initial_window: config.initial_window_bytes().unwrap_or(INITIAL_WINDOW),
            slow_start_max: shared.slow_start_max.clone(),
        }),
        Congestion::Bbr => with_window!(quic::congestion::BbrConfig::default()),
    }
}

fn quic_transport(
    config: &TransportConfig,
    factory: Factory,
    remote: SocketAddr,
    search: Option<Search>,
    carried: u16,
) -> quic::TransportConfig {
    let mut quic = quic::TransportConfig::default();
    quic.max_concurrent_uni_streams(with_control(Dir::Uni, config.max_concurrent_uni_streams))
        .max_concurrent_bidi_streams(with_control(Dir::Bi, config.max_concurrent_bidi_streams))
        .stream_receive_window(config.stream_receive_window.into())
        .send_window(config.send_tuner().window)
        .initial_rtt(config.initial_rtt)
        .initial_mtu(config.mtu())
        .keep_alive_interval(config.keep_alive_interval)
        .congestion_controller_factory(Arc::new(factory));
    quic.max_idle_timeout(config.max_idle_timeout);
    quic.mtu_discovery_config(config.mtu_discovery.config(remote, config.mtu(), search))
        .datagram_receive_buffer_size(config.datagram_receive_buffer_size);
    config.min_mtu.map(|bytes| quic.min_mtu(bytes));
    config.passed.iter().for_each(|change| change(&mut quic));
    if config.segment_size.is_some() {
        quic.mtu_discovery_config(None);
    }
    if config.steered() {
        // Fragmentable probes prove nothing, and packets fragmented for other reasons signal a wrong rate.
        quic.mtu_discovery_config(None).min_mtu(config.padded(carried));
    }
    quic
}

/// Most streams of a direction that a peer may have open: quinn-proto 0.11.19 has an entry for each that it allows, some
/// 50 bytes, from the start.
const STREAMS_MAX: u64 = 1 << 18;

/// One more unidirectional stream: the peer's control stream.
pub(super) fn with_control(dir: Dir, count: VarInt) -> VarInt {
    let control = u64::from(dir == Dir::Uni);
    varint(count.into_inner().min(STREAMS_MAX) + control)
}

pub(super) fn varint(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}

/// Frames that a connection has received.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedFrames {
    pub(super) all: u64,
    pub(super) stream: u64,
}

impl ReceivedFrames {
    pub(super) fn of(conn: &quic::Connection) -> Self {
        let stats = conn.stats().frame_rx;
        let data = [stats.acks, stats.stream, stats.crypto, stats.datagram, stats.ping];
        let limits = [stats.max_data, stats.max_stream_data, stats.max_streams_bidi, stats.max_streams_uni];
        let blocked = [
            stats.data_blocked,
            stats.stream_data_blocked,
            stats.streams_blocked_bidi,
            stats.streams_blocked_uni,
        ];
        let ends = [stats.reset_stream, stats.stop_sending, stats.connection_close];
        let paths = [
            stats.path_challenge,
            stats.path_response,
            stats.new_connection_id,
            stats.retire_connection_id,
            stats.new_token,
            stats.ack_frequency,
            stats.immediate_ack,
            stats.handshake_done.into(),
        ];
        let all = [&data[..], &limits, &blocked, &ends, &paths].into_iter().flatten().sum();
        Self { all, stream: stats.stream }
    }
}
