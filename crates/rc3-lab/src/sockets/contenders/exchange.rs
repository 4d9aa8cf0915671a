//! Requests and responses, one after the other.

/// What a client exchanges with a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// How many requests.
    pub count: u32,
    /// Bytes of each request and of each response.
    pub bytes: usize,
    /// A connection for each instead of one for all.
    pub new_connections: bool,
}
