//! Settings of applications and operators, with defaults and their reasons.

mod client;
mod mode;
mod passthrough;
mod segment;
mod server;
mod transport;

pub(crate) use self::passthrough::{MtuDiscovery, Passthrough};
pub use self::{
    client::ClientConfig,
    mode::{Congestion, RlpMode},
    server::ServerConfig,
    transport::TransportConfig,
};
