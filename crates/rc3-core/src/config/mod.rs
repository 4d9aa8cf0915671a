//! Settings of applications and operators, with defaults and their reasons.

mod client;
mod endpoint;
mod mode;
mod segment;
mod server;
mod transport;

use self::transport::passthrough::passed_to;
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

/// Setters: `name: Type` replaces the field of that name, `name: Type => field = value` another one or by another value.
macro_rules! setters {
    ($($(#[$attribute:meta])* $name:ident: $type:ty $(=> $field:ident = $value:expr)?;)*) => {
        $(
            $(#[$attribute])*
            pub fn $name(&mut self, $name: $type) -> &mut Self {
                setters!(@set self, $name $(, $field = $value)?);
                self
            }
        )*
    };
    (@set $self:ident, $name:ident) => { $self.$name = $name };
    (@set $self:ident, $name:ident, $field:ident = $value:expr) => { $self.$field = $value };
}
use setters;
