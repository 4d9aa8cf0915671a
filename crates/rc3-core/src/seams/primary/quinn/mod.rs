//! The primary loop over an unmodified quinn-proto: the only module, beside [`crate::quic`], that names that crate.
//!
//! A [`Quic`] is one connection: `polling.rs` drives it, `streams.rs` has its streams, `connection.rs` the rest; a
//! `QuicEndpoint` makes them.
//! `seam.rs` gives each a controller that is watched, `controller.rs`; `sample.rs`, `stall.rs` and `validation.rs` judge
//! what is seen there. The rest are settings: `settings.rs`, `crypto.rs`, `sessions.rs`, `accepting.rs`.

mod accepting;
mod connection;
mod controller;
mod crypto;
mod endpoint;
mod mtu_discovery;
mod polling;
mod sample;
mod seam;
mod sessions;
mod settings;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
mod stall;
mod steering;
mod streams;
mod validation;

use quinn_proto as quic;

pub(crate) use self::{
    accepting::Accepting,
    connection::udp_ip_headers,
    crypto::{ClientTls, ServerTls, random_token_key, ring_provider},
    endpoint::{QuicEndpoint, Routed},
    mtu_discovery::MtuDiscovery,
    sample::PathSample,
    sessions::Sessions,
    settings::Settings,
};
pub use self::{
    connection::{HandshakeData, Quic},
    crypto::{
        ClientCrypto, ConfigError, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig, ServerCrypto,
    },
    endpoint::{ConnectFailed, Incoming},
    streams::{ReadEnd, WriteError},
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
