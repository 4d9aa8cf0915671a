//! What queues ask of a packet.

/// What every queue asks of a packet.
pub trait Queued {
    /// Bytes on the wire, IP header included.
    fn bytes(&self) -> u64;

    /// The class of service it asks for, 0 to 63: its differentiated services code point (RFC 2474), or its level where
    /// packets are marked with levels themselves. [`Levels`](crate::Levels) says what a class means.
    fn class(&self) -> u8;
}

/// What queues per flow, and queues that mark, ask besides.
pub trait Routed {
    /// A hash of the flow it belongs to, alike for all fragments of one packet. `key` makes it unforeseeable.
    fn flow_hash(&self, key: u64) -> u64;

    /// Marks that it met congestion (RFC 3168 §5); whether its ends understand that.
    fn mark_congestion(&mut self) -> bool;
}
