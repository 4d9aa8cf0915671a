//! Packets of the far end that open its NAT for those of the near end (hole punching, RFC 5128 §3.3): the beginnings of
//! connections that nobody answers. They are repeated by the probe timeout (RFC 9002 §6.2), and end by themselves.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rc3_net::{ClientConfig, Connecting, Endpoint, RlpMode, VarInt};

use super::{direct::RTT_GUESS, wire::UdpTerms};
use crate::{
    error::Result,
    transfer::{
        addresses::single_hosts,
        identity::{SERVER_NAME, client},
        meet::Settings,
        message::ALPN,
        ticket::{FINGERPRINT_BYTES, Fingerprint},
    },
};

/// How long packets are repeated: as long as the near end tries to connect.
const PUNCH_FOR: Duration = super::direct::UDP_PATIENCE;

/// Begins to send from the endpoint to everything that may be the near end; ends when dropped, or after [`PUNCH_FOR`].
pub(super) fn punch(
    endpoint: &Endpoint,
    client_ip: Option<IpAddr>,
    terms: &UdpTerms,
    settings: &Settings,
) -> Result<Vec<Connecting>> {
    // Nobody has a certificate with this hash.
    let tls = client(Fingerprint([0; FINGERPRINT_BYTES]), ALPN)?;
    let mut transport = settings.transport(0, 0)?;
    let millis = u32::try_from(PUNCH_FOR.as_millis()).unwrap_or(u32::MAX);
    // It takes no part of the memory that bounds the window of the real connection.
    transport.receive_window(VarInt::from_u32(0)).rlp(RlpMode::Off);
    transport.initial_rtt(RTT_GUESS).max_idle_timeout(Some(VarInt::from_u32(millis).into()));
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    let begin = |to| endpoint.connect_with(config.clone(), to, SERVER_NAME);
    // Without a route to one address, others are left.
    Ok(targets(client_ip, terms).into_iter().filter_map(|to| begin(to).ok()).collect())
}

/// Where the near end may be: where ssh comes from, which is the outside of its NAT if it has one, and NATs mostly keep
/// ports (RFC 4787 §4.2.2); and its own addresses.
fn targets(client_ip: Option<IpAddr>, terms: &UdpTerms) -> Vec<SocketAddr> {
    // Loopback is another host only if ssh says so.
    let from = client_ip.filter(IpAddr::is_loopback).map(|ip| SocketAddr::new(ip, terms.near_port));
    let ips: Vec<IpAddr> = client_ip.into_iter().chain(terms.near.iter().copied()).collect();
    let mut targets: Vec<_> = from.into_iter().chain(single_hosts(&ips, terms.near_port)).collect();
    let mut seen = Vec::new();
    targets.retain(|target| {
        target.port() != 0 && !seen.contains(target) && {
            seen.push(*target);
            true
        }
    });
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::ticket::ADDRESSES_MAX;

    #[test]
    fn packets_go_to_a_few_single_hosts() {
        let aim = |from: &str, near: &[&str], near_port| {
            let near = near.iter().map(|ip| ip.parse().unwrap()).collect();
            let terms = UdpTerms { ports: (0, 0), near_port, near };
            let targets = targets(from.parse().ok(), &terms);
            targets.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let near = ["10.0.0.5", "2001:db8::5", "198.51.100.7", "10.0.0.5"];
        let expected = ["198.51.100.7:9", "10.0.0.5:9", "[2001:db8::5]:9"];
        assert_eq!(aim("198.51.100.7", &near, 9), expected);
        let lies = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "224.0.0.1", "ff02::1", "0.0.0.0"];
        assert!(aim("UNKNOWN", &lies, 9).is_empty());
        assert_eq!(aim("127.0.0.1", &lies, 9), ["127.0.0.1:9"], "both ends are on one host");
        assert!(aim("192.0.2.1", &[], 0).is_empty());
        let many: Vec<String> = (1..100).map(|nth| format!("192.0.2.{nth}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(aim("198.51.100.7", &many, 9).len(), ADDRESSES_MAX);
    }
}
