//! Network address translators of Linux, in front of a host.

use std::fmt;

use crate::net::{error::NetError, namespace::Namespace};

/// Longest IP packet behind a translator, in bytes.
pub(super) const MTU: u16 = 1500;
/// Where the host listens for its shell.
pub(super) const SHELL_PORT: u16 = 22;

/// What is between a host and the public network (RFC 4787 has the names).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nat {
    None,
    /// Each host may send to a port that was used once. Linux has only static rules for it.
    FullCone,
    /// Only whom a port has sent to may send to it; ports are kept.
    PortRestricted,
    /// The same, with a random port for each destination.
    Symmetric,
    /// The same, and it maps ports for hosts that ask.
    Mapping,
    /// Two of those that keep ports, one behind the other: that of a home, and that of its provider.
    Twice,
    /// UDP is dropped.
    Blocked,
}

pub(super) const NATS: [Nat; 7] =
    [Nat::None, Nat::FullCone, Nat::PortRestricted, Nat::Twice, Nat::Symmetric, Nat::Mapping, Nat::Blocked];

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::FullCone => "full cone",
            Self::PortRestricted => "port-restricted",
            Self::Symmetric => "symmetric",
            Self::Mapping => "symmetric, maps ports",
            Self::Twice => "two in a row",
            Self::Blocked => "UDP dropped",
        })
    }
}

impl Nat {
    /// Puts it in front of new hosts; the last one is the innermost. Without it there is none: the gateway is the host.
    /// `outside` is its public address if it maps ports.
    pub(super) fn build(self, gateway: &Namespace, outside: &str) -> Result<Vec<Namespace>, NetError> {
        let mut hosts: Vec<Namespace> = Vec::new();
        let depth = match self {
            Self::None => 0,
            Self::Twice => 2,
            _ => 1,
        };
        for nth in 0..depth {
            let (outer, host) = (hosts.last().unwrap_or(gateway), Namespace::new("host")?);
            // Both sides have the same addresses, as homes do.
            let network = format!("192.168.{nth}");
            outer.join(
                "lan",
                &format!("{network}.1/24"),
                (&host, "card", &format!("{network}.2/24")),
                MTU,
            )?;
            host.ip(&format!("route add default via {network}.1"))?;
            outer.sysctl(&["net.ipv4.ip_forward=1"])?;
            outer.shell(&format!(
                "nft -f - <<'END'\n{}\nEND",
                self.ruleset(&format!("{network}.2"), outside)
            ))?;
            hosts.push(host);
        }
        Ok(hosts)
    }

    /// The rules of a gateway whose device `card` is outside, with the host at this address. As home routers do, it drops
    /// what comes to itself, and forwards the shell's port.
    fn ruleset(self, host: &str, outside: &str) -> String {
        let source = match self {
            Self::Symmetric => "masquerade fully-random".to_owned(),
            Self::Mapping => format!("snat to {outside} fully-random"),
            _ => "masquerade".to_owned(),
        };
        let everybody = match self {
            Self::FullCone => format!("iifname card meta l4proto udp dnat to {host}"),
            _ => String::new(),
        };
        let blocked = if self == Self::Blocked { "meta l4proto udp drop" } else { "" };
        format!(
            "table ip nat {{\n\
               chain before {{ type nat hook prerouting priority -100;\n\
                 iifname card tcp dport {SHELL_PORT} dnat to {host}\n{everybody}\n}}\n\
               chain after {{ type nat hook postrouting priority 100;\noifname card {source}\n}}\n\
             }}\n\
             table ip filter {{\n\
               chain in {{ type filter hook input priority 0;\niifname card ct state new drop\n}}\n\
               chain through {{ type filter hook forward priority 0; policy drop;\n\
                 {blocked}\niifname lan accept\nct state established,related accept\nct status dnat accept\n}}\n\
             }}"
        )
    }

    /// Whether UDP can pass between hosts behind these two, whichever begins. Behind a symmetric one a host does not know
    /// its port, so only who takes packets of any port can be reached.
    pub(super) fn is_passable(self, other: Self) -> bool {
        let takes_any = |nat| matches!(nat, Self::None | Self::FullCone | Self::Mapping);
        match (self, other) {
            (Self::Blocked, _) | (_, Self::Blocked) => false,
            (nat, other) if takes_any(nat) || takes_any(other) => true,
            (Self::Symmetric, _) | (_, Self::Symmetric) => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symmetric_ones_pass_only_where_packets_of_any_port_may_come() {
        let passable = |nat: Nat| NATS.map(|other| nat.is_passable(other));
        assert_eq!(passable(Nat::None), [true, true, true, true, true, true, false]);
        assert_eq!(passable(Nat::Twice), [true, true, true, true, false, true, false]);
        assert_eq!(passable(Nat::Symmetric), [true, true, false, false, false, true, false]);
        assert_eq!(passable(Nat::Mapping), [true, true, true, true, true, true, false]);
        assert_eq!(passable(Nat::Blocked), [false; 7]);
    }
}
