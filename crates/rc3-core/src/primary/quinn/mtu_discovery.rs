//! How far to look for a larger path MTU.

use std::net::SocketAddr;

use quinn_proto as quic;

/// What passes the loopback device of any system, in bytes of UDP payload: its MTU is 65,536 on Linux and 16,384 on the BSDs
/// and macOS, less 48 of IPv6 and UDP. Longer packets are no cheaper: copies and the cipher are most of what is left.
const LOOPBACK: u16 = 16_384 - 48;

/// Whether and how far a connection looks for a larger path MTU (RFC 8899).
#[derive(Debug, Clone, Default)]
pub(crate) enum MtuDiscovery {
    /// quinn-proto's defaults, which end at Ethernet's; on loopback further, for there nothing else is on the path.
    #[default]
    ByPeer,
    /// As the application said.
    Within(quic::MtuDiscoveryConfig),
    Off,
}

impl MtuDiscovery {
    /// Towards this peer.
    pub(super) fn config(&self, remote: SocketAddr) -> Option<quic::MtuDiscoveryConfig> {
        match self {
            Self::ByPeer => {
                let mut config = quic::MtuDiscoveryConfig::default();
                if remote.ip().to_canonical().is_loopback() {
                    config.upper_bound(LOOPBACK);
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
        let upper_bound = |discovery: &MtuDiscovery, remote: &str| {
            let config = discovery.config(SocketAddr::new(remote.parse().unwrap(), 443));
            config.map(|config| format!("{config:?}"))
        };
        let debug = |bytes: u16| {
            let mut config = quic::MtuDiscoveryConfig::default();
            config.upper_bound(bytes);
            Some(format!("{config:?}"))
        };
        for remote in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(upper_bound(&MtuDiscovery::ByPeer, remote), debug(16_336), "{remote}");
            assert_eq!(upper_bound(&MtuDiscovery::Off, remote), None);
        }
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert_eq!(upper_bound(&MtuDiscovery::ByPeer, remote), debug(1452), "{remote}");
        }
        let mut jumbo = quic::MtuDiscoveryConfig::default();
        jumbo.upper_bound(8952);
        assert_eq!(upper_bound(&MtuDiscovery::Within(jumbo), "127.0.0.1"), debug(8952));
    }
}
