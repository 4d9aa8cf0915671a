//! Counters of the endpoint for the recorder that the program has installed (docs/OBSERVABILITY.md).
//!
//! This module counts nothing itself: once a second, while there is work, and when a connection ends, it reports the
//! changes of [`ConnectionStats`] and [`socket::Stats`].

mod connection;
mod counter;
mod endpoint;
mod handed_over;
mod kickass;

pub(crate) use self::{
    connection::ConnectionReporter,
    endpoint::{EndpointGauges, EndpointReporter},
    handed_over::report_handed_over,
};
