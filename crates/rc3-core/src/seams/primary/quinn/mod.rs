//! The primary loop over an unmodified quinn-proto: the only module, besides [`crate::quic`], that uses that crate.
//!
//! A [`Quic`] is one connection: `polling.rs` drives it, `streams.rs` has its streams, `connection.rs` the rest; a
//! `QuicEndpoint` makes them. `seam.rs` gives each a wrapped controller (`controller.rs`); `sample.rs`, `silence.rs` and
//! `validation.rs` evaluate its observations. The rest is configuration: `mtu_discovery.rs`, `accepting.rs`.

mod accepting;
mod checked_ids;
mod congestion_state;
mod connection;
mod controller;
mod endpoint;
mod mtu_discovery;
#[cfg(feature = "qlog")]
mod observed;
mod polling;
mod sample;
mod seam;
mod seeded;
mod silence;
mod steering;
mod streams;
mod validation;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use quinn_proto as quic;

pub use self::endpoint::{ConnectFailed, Incoming};
pub(crate) use self::mtu_discovery::udp_ip_headers;
pub(crate) use self::{
    accepting::Accepting,
    endpoint::{QuicEndpoint, RoutedDatagram},
    mtu_discovery::Found,
    sample::PathSample,
    seam::Bounds,
};
use self::{
    controller::ControllerState, mtu_discovery::Search, seam::ReceivedFrames, silence::Silence,
    steering::SharedSteering, validation::Validation,
};
use crate::{
    laws::{departures::PacedDepartures, primary_window::Waiting},
    seams::{qlog::Trace, tls::sessions::ConnectionSessions},
    transmit::Transmit,
    units::Level,
};

/// One QUIC connection.
pub(crate) struct Quic {
    conn: quic::Connection,
    shared: Arc<ControllerState>,
    waiting: Waiting,
    silence: Silence,
    /// Whether a silent peer is asked. TCP, which simulations compare with, only repeats less and less often.
    asks: bool,
    /// Present if routers may signal the rate.
    steering: Option<SharedSteering>,
    /// The pacing state, if [`Self::rate`] returns a rate.
    departures: PacedDepartures,
    /// See [`crate::laws::primary_window::Window::due`].
    due: u64,
    /// When a waiting packet may leave.
    departure: Option<Instant>,
    /// Present on clients that may use 0-RTT.
    sessions: Option<Arc<ConnectionSessions>>,
    trace: Trace,
    /// The smoothed round-trip time before the last datagram; `None` before the first sample, when it is a guess.
    rtt_before: Option<Duration>,
    /// The path whose bytes in flight are counted.
    remote: SocketAddr,
    validation: Validation,
    /// Whether the peer's address was validated before the handshake: always on clients.
    validated_before: bool,
    /// Whether data of the application's streams was written.
    pub(crate) fed: bool,
    /// Frames received before the last datagram.
    frames: ReceivedFrames,
    /// Probes of the path MTU that were lost when the last one left.
    lost_probes: u64,
    /// The search for the path MTU, until it is over or the path changes.
    search: Option<Search>,
    /// A search that has ended, and what it found.
    searched: Option<(Search, u16)>,
}

fn from_transmit(transmit: quic::Transmit, dont_fragment: bool) -> Transmit {
    Transmit {
        destination: transmit.destination,
        source: transmit.src_ip,
        level: Level::PRIMARY,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        size: transmit.size,
        segment_size: transmit.segment_size,
        dont_fragment,
    }
}
