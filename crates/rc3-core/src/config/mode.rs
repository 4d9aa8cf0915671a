//! Which loops run, and by which laws.

/// Whether and how the RLP loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RlpMode {
    /// RLP sends at the rate at which the path brings it, sends again what is lost, and leaves the queue alone unless the primary
    /// is seen to overtake RLP. See docs/DECISIONS.md, section RLP.
    #[default]
    Guard,
    /// The network is trusted to honour the marks (RC3 §2.1).
    Trust,
    /// No RLP at all, not even on offer: plain QUIC v1. With [`Congestion::KickAss`] rc3 is spoken all the same, since
    /// signals travel on its control stream, but no data is sent by RLP.
    Off,
}

/// The congestion controller of the primary loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// RFC 9002 §7, the papers' choice.
    NewReno,
    /// RFC 9438, what most of today's traffic uses.
    #[default]
    Cubic,
    /// BBR as quinn-proto 0.11 has it, for programs that ask for it by name. Not to be used where results count: the
    /// simulator and the tools do not offer it.
    ///
    /// It is not BBR: a rate sample is taken between two neighbouring acknowledgments, not over a round trip's delivery.
    /// On an idle path of 100 Mbit/s x 40 ms the window goes from 6 kB to 368 kB within two acknowledgments, 0.4 ms
    /// apart; simulated flows end 20 to 77 % before those of ns-3's BBR (docs/DECISIONS.md 85).
    Bbr,
    /// The rates that routers tell by the lengths of fragments (Kick-Ass §2.3), NewReno where they tell none.
    ///
    /// Packets may then be fragmented on their way, leave one by one, and look for no larger path MTU; see
    /// [`crate::TransportConfig::initial_mtu`]. Where that loses them, the endpoint notices and forbids it.
    #[cfg(feature = "kickass")]
    KickAss,
}
