//! Which loops run, and how.

/// Whether and how the RLP loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RlpMode {
    /// RLP sends at the rate of its deliveries, sends lost bytes again, and builds a queue only if the primary is known
    /// to overtake RLP. See docs/DECISIONS.md 35 and 97.
    #[default]
    Guard,
    /// RLP assumes that the network honours the marks (RC3 §2.1).
    Trust,
    /// No RLP, nor an offer of it: plain QUIC v1. With [`Congestion::KickAss`] rc3 is still negotiated, since signals
    /// travel on its control stream, but RLP sends no data.
    Off,
}

/// The congestion controller of the primary loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// RFC 9002 §7, the papers' choice.
    NewReno,
    /// RFC 9438, what most of today's traffic uses. In guard mode slow start ends when the window has filled the path by
    /// RLP's measurement, not only by a loss; see docs/DECISIONS.md 269.
    #[default]
    Cubic,
    /// BBR as in quinn-proto 0.11, for programs that select it by name. Do not compare results with it: the simulator
    /// and `rc3` do not offer it.
    ///
    /// It differs from BBR: it takes a rate sample between two neighbouring acknowledgments instead of over a round
    /// trip.
    /// On an idle path of 100 Mbit/s x 40 ms the window goes from 6 kB to 368 kB within two acknowledgments, 0.4 ms
    /// apart; simulated flows end 20 to 77 % before those of ns-3's BBR (docs/DECISIONS.md 85).
    Bbr,
    /// Yields to all other traffic (a scavenger, RFC 8622): the primary keeps a window of two packets after the first
    /// acknowledgment, RLP carries the rest, and every packet leaves at [`Level::MAX`](crate::units::Level::MAX). Idle
    /// paths are filled from the first round trip all the same.
    ///
    /// It needs a peer that uses rc3: to a plain one, two packets leave in each round trip. Where routers starve the lowest
    /// priority for longer than the idle timeout, the connection is lost.
    Background,
    /// The rates that routers signal by the lengths of fragments (Kick-Ass §2.3), NewReno without signals.
    ///
    /// Packets may then be fragmented on the path, leave one by one, and do not probe for a larger path MTU; see
    /// [`crate::TransportConfig::initial_mtu`]. If fragments are lost, the endpoint detects it and sets Don't Fragment.
    KickAss,
}
