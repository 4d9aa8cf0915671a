//! The primary loop over an unmodified quinn-proto: the only module, besides [`crate::quic`], that uses that crate.
//!
//! A [`Quic`] is one connection: `polling.rs` drives it, `streams.rs` has its streams, `connection.rs` the rest; a
//! `QuicEndpoint` makes them. `seam.rs` gives each a wrapped controller (`controller.rs`); `sample.rs`, `stall.rs` and
//! `validation.rs` evaluate its observations. The rest is configuration: `passthrough.rs`, `mtu_discovery.rs`,
//! `accepting.rs`.

mod accepting;
mod checked_ids;
mod congestion_state;
mod connection;
mod controller;
mod endpoint;
mod mtu_discovery;
#[cfg(feature = "qlog")]
mod observed;
mod passthrough;
mod polling;
mod sample;
mod seam;
mod seeded;
mod stall;
#[cfg(feature = "kickass")]
mod steering;
mod streams;
#[cfg(not(feature = "kickass"))]
mod unsteered;
mod validation;

use quinn_proto as quic;
#[cfg(not(feature = "kickass"))]
use unsteered as steering;

#[cfg(feature = "kickass")]
pub(crate) use self::connection::udp_ip_headers;
pub(crate) use self::{
    accepting::Accepting,
    connection::Quic,
    endpoint::{QuicEndpoint, Routed},
    mtu_discovery::Found,
    sample::PathSample,
    seam::Bounds,
    streams::{ReadEnd, WriteError},
};
pub use self::{
    connection::HandshakeData,
    endpoint::{ConnectFailed, Incoming},
};
use crate::{transmit::Transmit, units::Level};

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
