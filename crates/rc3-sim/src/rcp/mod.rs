//! The Rate Control Protocol (Dukkipati and McKeown): routers compute one fair rate per link, packets bring it to
//! the ends, senders pace at it.

use std::time::Duration;

/// What a packet of RCP carries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    /// What kind of packet it is.
    pub kind: Kind,
    /// Rate asked for on the way out, lowered by each router; on the way back the rate granted. Bytes per second.
    pub rate: f64,
    /// The sender's estimate of its round trip, zero before it has one.
    pub rtt: Duration,
    /// First byte carried, or on the way back the bytes received so far.
    pub offset: u64,
    /// Bytes of the application carried.
    pub len: u32,
}

/// The kinds of packets RCP needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Opens a flow and asks for a rate.
    Syn,
    /// Answers with the rate granted.
    SynAck,
    /// Bytes of the application, which ask for a rate too.
    Data,
    /// What has arrived, and the rate granted.
    Ack,
}
