//! The primary's window, as both loops use it.

/// The primary's congestion window, for feeding it late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest UDP payload in bytes.
    pub mtu: u16,
    /// What written bytes outside packets wait for, as of the last `Quic::poll_transmit` that returned `None`.
    pub waiting: Waiting,
    /// Full packets that pacing allows at the moment, with a signalled rate; otherwise quinn-proto paces, and this is
    /// no bound.
    pub due: u64,
}

/// What written bytes wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// None wait: all are in packets.
    Nothing,
    /// The window, or on servers the end of the handshake: possibly a round trip.
    ForWindow,
    /// The pacer: a moment. Or nothing was written and requested since.
    ForPacer,
}

impl Window {
    /// Full packets that the window allows now.
    ///
    /// quinn-proto sends while `in_flight + mtu < cwnd`.
    pub(crate) fn packets(&self) -> u64 {
        self.cwnd.saturating_sub(self.in_flight + 1) / u64::from(self.mtu)
    }
}
