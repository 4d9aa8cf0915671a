//! The interface of packets.

/// Properties that every queue needs.
pub trait Queued {
    /// Bytes on the wire, IP header included.
    fn bytes(&self) -> u64;

    /// Its class of service, 0 to 63: the differentiated services code point (RFC 2474), or the level if packets carry
    /// levels themselves. [`Levels`](crate::Levels) maps classes to levels.
    fn class(&self) -> u8;
}

/// Further properties for queues with flows, and queues that mark.
pub trait Routed {
    /// A hash of its flow, equal for all fragments of one packet. `key` makes it unpredictable.
    fn flow_hash(&self, key: u64) -> u64;

    /// Marks it as CE (RFC 3168 §5); returns whether its endpoints support that.
    fn mark_congestion(&mut self) -> bool;
}
