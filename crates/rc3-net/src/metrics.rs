//! Counters of the endpoint for whichever recorder the program has installed (docs/OBSERVABILITY.md).
//!
//! Nothing is counted here: once a second, while there is something to do, and when a connection ends, the
//! difference to what was last reported is taken from [`ConnectionStats`] and [`socket::Stats`].

mod connection;
mod counter;
mod endpoint;
#[cfg(feature = "kickass")]
mod kickass;

pub(crate) use self::{
    connection::ConnectionReporter,
    endpoint::{EndpointGauges, EndpointReporter},
};
