//! What an application or operator may choose, the defaults, and the reason for each.

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
