//! Path MTU discovery: which lengths quinn-proto probes, and what a search finds.
//!
//! quinn-proto halves the interval between a length that passes and its upper bound, and tries each length three times
//! before it gives it up. Both are fixed for a connection; upper bound and smallest step are all that can be chosen.

use std::{net::SocketAddr, sync::atomic::Ordering::Relaxed};

use quinn_proto as quic;

use super::Quic;
use crate::{config::MtuDiscovery, laws::path_mtu::PathMtu};

/// The probe on loopback, in bytes of UDP payload: 8192 minus 48 of IPv6 and UDP, eight of which fill a batch. The
/// device accepts 65,536 on Linux and 16,384 on the BSDs and macOS. But a probe is padding, which quinn-proto reads at
/// 12 ns a byte, and short connections would lose more time than they gain.
const LOOPBACK: u16 = 8192 - 48;

/// The longest datagram otherwise: an Ethernet frame over IPv6. quinn-proto's default.
const ETHERNET: u16 = 1452;

/// A search for more than Ethernet's length ends with a length at most this much above the initial one, if no longer
/// one passes: 1472 bytes, an Ethernet frame over IPv4, with the initial length of 1200.
const LAST_STEP: u16 = 272;

/// Where the search of one connection stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    bound: u16,
    /// The result of an earlier connection, which this one probes instead of a search.
    known: Option<u16>,
}

/// What a search says about the path of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was complete.
    Mtu(PathMtu),
    /// The result of an earlier connection no longer holds.
    Outdated,
}

impl Search {
    /// The search of a connection to `remote`, which starts with datagrams of `initial` bytes. `None`: there is none, or
    /// the application has chosen quinn-proto's settings, and with them its search.
    pub(super) fn new(
        discovery: &MtuDiscovery,
        remote: SocketAddr,
        earlier: Option<PathMtu>,
    ) -> Option<Self> {
        let bound = match discovery {
            MtuDiscovery::ByPeer if is_loopback(remote) => LOOPBACK,
            MtuDiscovery::ByPeer => ETHERNET,
            MtuDiscovery::UpTo(packet) => packet.saturating_sub(udp_ip_headers(remote) as u16),
            MtuDiscovery::Within(_) | MtuDiscovery::Off => return None,
        };
        let known = earlier.filter(|earlier| earlier.bound == bound).map(|earlier| earlier.found);
        Some(Self { bound, known })
    }
}

fn is_loopback(remote: SocketAddr) -> bool {
    remote.ip().to_canonical().is_loopback()
}

impl MtuDiscovery {
    /// The configuration for this peer. `initial` is the length of its first datagrams.
    pub(super) fn config(
        &self,
        remote: SocketAddr,
        initial: u16,
        search: Option<Search>,
    ) -> Option<quic::MtuDiscoveryConfig> {
        let mut config = quic::MtuDiscoveryConfig::default();
        match (self, search) {
            (Self::Off, _) => return None,
            (Self::Within(config), _) => return Some(config.clone()),
            (_, Some(Search { known: Some(known), .. })) => {
                // One probe, of that length: steps below the distance are skipped, but the bound itself is tried.
                let bound = known.max(initial);
                config.upper_bound(bound).minimum_change((bound - initial).max(1));
            }
            (Self::UpTo(_), Some(Search { bound, .. })) => {
                config.upper_bound(bound).minimum_change(last_step(initial, bound));
            }
            _ if is_loopback(remote) => {
                // The same: it passes, or the device was made smaller and the current length will do.
                config.upper_bound(LOOPBACK).minimum_change(LOOPBACK / 2);
            }
            _ => {}
        }
        Some(config)
    }
}

/// The step with which a search ends that finds nothing longer: the one that leads below [`LAST_STEP`]. A smaller one
/// would lose three probes of each further length.
fn last_step(initial: u16, bound: u16) -> u16 {
    let (mut upper, mut last) = (bound, bound);
    loop {
        // As quinn-proto does.
        let next = initial + upper.saturating_sub(initial) / 2;
        if last.saturating_sub(initial) <= LAST_STEP {
            return last.saturating_sub(initial).max(1);
        }
        if next - initial <= LAST_STEP {
            return last - next;
        }
        (upper, last) = (next - 1, next);
    }
}

impl Quic {
    /// Call it when quinn-proto has nothing to send: if no probe is in flight, the search is over.
    pub(super) fn look_for_search_end(&mut self) {
        if self.shared.probing.load(Relaxed) == 0 && !self.conn.is_handshaking() && !self.conn.is_closed() {
            self.searched = self.search.take().map(|search| (search, self.conn.current_mtu()));
        }
    }

    /// The result of a search that has ended since the last call.
    pub(crate) fn take_path_mtu(&mut self) -> Option<Found> {
        let (Search { bound, known }, found) = self.searched.take()?;
        match known {
            None => Some(Found::Mtu(PathMtu { found, bound })),
            Some(known) => (found < known).then_some(Found::Outdated),
        }
    }
}

/// Bytes of the UDP and IP headers, which routers count.
pub(crate) fn udp_ip_headers(remote: SocketAddr) -> usize {
    if remote.ip().to_canonical().is_ipv4() { 28 } else { 48 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_takes_more_than_ethernet_unless_somebody_says_so() {
        let search = |discovery: &MtuDiscovery, remote: &str| {
            let remote = SocketAddr::new(remote.parse().unwrap(), 443);
            let config = discovery.config(remote, 1200, Search::new(discovery, remote, None));
            config.map(|config| format!("{config:?}"))
        };
        let up_to = |bytes: u16| {
            let mut config = quic::MtuDiscoveryConfig::default();
            config.upper_bound(bytes);
            Some(format!("{config:?}"))
        };
        let loopback = {
            let mut config = quic::MtuDiscoveryConfig::default();
            config.upper_bound(8144).minimum_change(4072);
            Some(format!("{config:?}"))
        };
        for remote in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(search(&MtuDiscovery::ByPeer, remote), loopback, "{remote}");
            assert_eq!(search(&MtuDiscovery::Off, remote), None);
        }
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert_eq!(search(&MtuDiscovery::ByPeer, remote), up_to(1452), "{remote}");
        }
        let mut jumbo = quic::MtuDiscoveryConfig::default();
        jumbo.upper_bound(8952);
        assert_eq!(search(&MtuDiscovery::Within(jumbo), "127.0.0.1"), up_to(8952));
    }

    /// Lengths that quinn-proto probes on a path that takes `passes`, each with how often it was lost.
    fn probed(config: (u16, u16), initial: u16, passes: u16) -> Vec<(u16, bool)> {
        let (bound, step) = config;
        let (mut lower, mut upper, mut last) = (initial, bound.max(initial), initial);
        let mut probed = Vec::new();
        loop {
            let next = lower + (upper - lower) / 2;
            let next = match next.abs_diff(last) < step {
                true if upper.saturating_sub(last) >= step => upper,
                true => return probed,
                false => next,
            };
            probed.push((next, next <= passes));
            last = next;
            if next <= passes {
                lower = next;
            } else {
                upper = next - 1;
            }
        }
    }

    #[test]
    fn a_search_that_finds_nothing_longer_ends_near_ethernet() {
        for (bound, lost_max) in [(1472, 0), (3972, 4), (8972, 4), (9172, 4), (65_507, 8)] {
            let step = last_step(1200, bound);
            let probed = probed((bound, step), 1200, 1472);
            let lost = probed.iter().filter(|(_, passed)| !passed).count();
            let found = probed.iter().filter(|(_, passed)| *passed).map(|(length, _)| *length).max();
            assert!(found >= Some(1300) && lost <= lost_max, "{bound}: {probed:?}");
        }
    }

    #[test]
    fn a_known_length_is_the_only_one_probed() {
        let remote: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let discovery = MtuDiscovery::UpTo(9000);
        let search = |found, bound| {
            let search = Search::new(&discovery, remote, Some(PathMtu { found, bound }));
            search.map(|search| search.known)
        };
        assert_eq!(search(1442, 8972), Some(Some(1442)));
        assert_eq!(search(1452, 1452), Some(None), "of a search with another bound");
        for (known, expected) in [(8972, vec![(8972, true)]), (1442, vec![(1442, true)]), (1200, vec![])] {
            let bound = known.max(1200);
            assert_eq!(probed((bound, (bound - 1200).max(1)), 1200, 9000), expected);
        }
    }
}
