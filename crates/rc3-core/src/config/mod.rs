//! Settings of applications and operators, with defaults and their reasons.

mod client;
mod endpoint;
mod mode;
mod segment;
mod server;
mod transport;

pub use self::{
    client::ClientConfig,
    endpoint::EndpointConfig,
    mode::{Congestion, RlpMode},
    server::ServerConfig,
    transport::TransportConfig,
};
pub(crate) use self::{
    endpoint::{ID_BYTES_MAX, ID_BYTES_MIN, random_id},
    transport::passthrough::{MtuDiscovery, Passthrough},
};
