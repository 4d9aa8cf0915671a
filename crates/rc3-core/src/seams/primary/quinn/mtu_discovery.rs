//! The upper bound of path MTU discovery.

use std::net::SocketAddr;

use quinn_proto as quic;

use crate::config::MtuDiscovery;

/// The probe on loopback, in bytes of UDP payload: 8192 minus 48 of IPv6 and UDP, eight of which fill a batch. The
/// device accepts 65,536 on Linux and 16,384 on the BSDs and macOS. But a probe is padding, which quinn-proto reads at
/// 12 ns a byte, and short connections would lose more time than they gain.
const LOOPBACK: u16 = 8192 - 48;

impl MtuDiscovery {
    /// The configuration for this peer.
    pub(super) fn config(&self, remote: SocketAddr) -> Option<quic::MtuDiscoveryConfig> {
        match self {
            Self::ByPeer => {
                let mut config = quic::MtuDiscoveryConfig::default();
                if remote.ip().to_canonical().is_loopback() {
                    // One probe without a search: it passes, or the device was made smaller and the current length will
                    // do. Steps below half of the bound are skipped, but the bound itself is tried.
                    config.upper_bound(LOOPBACK).minimum_change(LOOPBACK / 2);
                }
                Some(config)
            }
            Self::Within(config) => Some(config.clone()),
            Self::Off => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_takes_more_than_ethernet_unless_somebody_says_so() {
        let search = |discovery: &MtuDiscovery, remote: &str| {
            let config = discovery.config(SocketAddr::new(remote.parse().unwrap(), 443));
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
}
