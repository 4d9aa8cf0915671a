//! What the primary says of its window: what both loops go by.

/// The primary's congestion window, for feeding it late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest UDP payload in bytes.
    pub mtu: u16,
    /// What the bytes written and not yet in a packet wait for, as of the last `Quic::poll_transmit` that
    /// returned `None`.
    pub waiting: Waiting,
    /// Full packets that pacing lets go within a moment, where a rate is told; otherwise quinn-proto paces, and this is
    /// no bound.
    pub due: u64,
}

/// What written bytes wait for before they go into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// None are waiting: all are in packets.
    Nothing,
    /// For the window: a round trip perhaps.
    ForWindow,
    /// For the pacer: a moment. Or nothing was written and asked since.
    ForPacer,
}

impl Window {
    /// How many full packets the window lets go now.
    ///
    /// quinn-proto sends while `in_flight + mtu < cwnd`.
    pub(crate) fn packets(&self) -> u64 {
        self.cwnd.saturating_sub(self.in_flight + 1) / u64::from(self.mtu)
    }
}
