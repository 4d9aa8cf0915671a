//! One translator of Linux in front of both hosts.

use std::fmt;

use super::nat::MTU;
use crate::net::{error::NetError, namespace::Namespace, site::SENDER};

/// Where two hosts are that have one public address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    /// In one network, as two hosts of a home.
    Network,
    /// In networks of their own, as homes behind the NAT of a provider, which passes packets from one to the public address
    /// of the other (hairpinning, RFC 4787 §6).
    Hairpin,
    /// The same, without that.
    NoHairpin,
}

pub(super) const SHARED: [Shared; 3] = [Shared::Network, Shared::Hairpin, Shared::NoHairpin];

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "one private network",
            Self::Hairpin => "two private networks, hairpinning",
            Self::NoHairpin => "two private networks, no hairpinning",
        })
    }
}

impl Shared {
    /// Puts it in front of two new hosts.
    pub(super) fn build(self, gateway: &Namespace) -> Result<[Namespace; 2], NetError> {
        let hosts = [Namespace::new("host")?, Namespace::new("host")?];
        let is_one = self == Self::Network;
        if is_one {
            let lan = "ip link add lan type bridge; ip addr add 192.168.0.1/24 dev lan; ip link set lan up";
            // Rules for what is routed are not for what is switched.
            let unfiltered = "sysctl -qw net.bridge.bridge-nf-call-iptables=0 2>/dev/null || true";
            gateway.shell(&format!("{lan}; {unfiltered}"))?;
        }
        for (nth, host) in hosts.iter().enumerate() {
            let (port, network) = (format!("lan-{nth}"), if is_one { 0 } else { nth });
            let own = format!("192.168.{network}.{}/24", nth + 2);
            // The port of a bridge has no use for an address.
            let other = format!("192.168.{}.1/24", if is_one { nth + 8 } else { nth });
            gateway.join(&port, &other, (host, "card", &own), MTU)?;
            host.ip(&format!("route add default via 192.168.{network}.1"))?;
            if is_one {
                gateway.ip(&format!("link set {port} master lan"))?;
            }
        }
        gateway.sysctl(&["net.ipv4.ip_forward=1"])?;
        gateway.shell(&format!("nft -f - <<'END'\n{}\nEND", self.ruleset()))?;
        Ok(hosts)
    }

    /// Ports are kept, and only whom a port has sent to may send to it, except from the other network with hairpinning.
    fn ruleset(self) -> String {
        let hairpin = match self {
            Self::Hairpin => format!("ip daddr {SENDER} meta l4proto udp dnat to udp dport map @ports"),
            _ => String::new(),
        };
        format!(
            "table ip nat {{\n\
               map ports {{ type inet_service : ipv4_addr; flags dynamic,timeout; timeout 2m; size 1000; }}\n\
               chain before {{ type nat hook prerouting priority -100;\niifname card return\n{hairpin}\n}}\n\
               chain after {{ type nat hook postrouting priority 100;\n\
                 oifname card meta l4proto udp update @ports {{ udp sport : ip saddr }}\n\
                 oifname card snat to {SENDER}\nct status dnat snat to {SENDER}\n}}\n\
             }}\n\
             table ip filter {{\n\
               chain in {{ type filter hook input priority 0;\niifname card ct state new drop\n}}\n\
               chain through {{ type filter hook forward priority 0; policy drop;\n\
                 oifname card accept\nct state established,related accept\nct status dnat accept\n}}\n\
             }}"
        )
    }
}
