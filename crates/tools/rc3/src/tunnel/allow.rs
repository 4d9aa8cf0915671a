//! Which targets a peer may reach through this host.
//!
//! Names are compared before they are resolved, so a refused target causes no DNS query.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use super::address::{AddressError, Target};
use crate::transfer::ticket::{parts, positive};

/// The name that is always this host's.
const LOCAL: &str = "localhost";

/// The argument of `--allow`: a host and a port, either of which may be `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPattern {
    /// `None` is any.
    host: Option<String>,
    /// `None` is any.
    port: Option<u16>,
}

impl FromStr for TargetPattern {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts = parts(text).ok_or(AddressError::Host)?;
        let [host, port] = parts[..] else {
            return Err(AddressError::Form("HOST:PORT; either may be `*`"));
        };
        let port = match port {
            "*" => None,
            port => Some(positive(port).ok_or(AddressError::Port)?),
        };
        let host = match host {
            "*" => None,
            host => Some(Target::new(host, 1)?.host().to_owned()),
        };
        Ok(Self { host, port })
    }
}

impl TargetPattern {
    fn allows(&self, target: &Target) -> bool {
        let host = self.host.as_ref().is_none_or(|host| same_host(host, target.host()));
        host && self.port.is_none_or(|port| port == target.port())
    }
}

/// Whether two hosts are the same text or the same address.
fn same_host(one: &str, other: &str) -> bool {
    let address = |host: &str| host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    one == other || address(one).is_some_and(|ip| Some(ip) == address(other))
}

/// Whether a peer may reach this target. `localhost` and loopback addresses are the only ones without patterns.
pub fn is_allowed(patterns: &[TargetPattern], target: &Target) -> bool {
    match patterns {
        [] => target.host() == LOCAL || target.host().parse().is_ok_and(is_loopback),
        patterns => patterns.iter().any(|pattern| pattern.allows(target)),
    }
}

/// The addresses of an allowed target that may be connected to: whatever a resolver claims, `localhost` is a loopback
/// address.
pub fn reachable(target: &Target, resolved: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let is_local = target.host() == LOCAL;
    resolved.into_iter().filter(|address| !is_local || is_loopback(address.ip())).collect()
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(patterns: &[&str], target: &str) -> bool {
        let patterns: Vec<TargetPattern> = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        is_allowed(&patterns, &target.parse().unwrap())
    }

    #[test]
    fn without_patterns_only_loopback_is_allowed() {
        for target in
            ["localhost:22", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9:80", "[::1]:5", "[::ffff:127.0.0.1]:5"]
        {
            assert!(allowed(&[], target), "{target}");
        }
        for target in [
            "192.0.2.1:80",
            "0.0.0.0:80",
            "[::]:80",
            "example.org:80",
            "localhost.example.org:80",
            "2130706433:1",
            "127.1:1",
        ] {
            assert!(!allowed(&[], target), "{target}");
        }
    }

    #[test]
    fn patterns_replace_the_default() {
        assert!(allowed(&["db:5432"], "db:5432"));
        assert!(!allowed(&["db:5432"], "db:5433") && !allowed(&["db:5432"], "localhost:22"));
        assert!(allowed(&["db:*", "*:443"], "db:1") && allowed(&["db:*", "*:443"], "example.org:443"));
        assert!(!allowed(&["db:*", "*:443"], "example.org:80"));
        assert!(allowed(&["[2001:db8::1]:80"], "[2001:db8:0::1]:80"));
        assert!(allowed(&["192.0.2.1:80"], "[::ffff:192.0.2.1]:80"));
    }

    #[test]
    fn localhost_is_loopback_whatever_a_resolver_claims() {
        let found = ["192.0.2.1:22", "127.0.0.1:22", "[::1]:22"].map(|at| at.parse().unwrap());
        let reachable = |target: &str| reachable(&target.parse().unwrap(), found);
        assert_eq!(reachable("localhost:22"), found[1..]);
        assert_eq!(reachable("example.org:22"), found);
    }

    #[test]
    fn other_patterns_are_refused() {
        for text in ["", "h", "h:0", "h:x", ":80", "a b:80", "::1:80", "[::1:80"] {
            assert!(text.parse::<TargetPattern>().is_err(), "{text}");
        }
    }
}
