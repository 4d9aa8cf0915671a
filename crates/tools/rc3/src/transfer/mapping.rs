//! A port of the gateway that leads to this host's: by PCP (RFC 6887), or NAT-PMP (RFC 6886) where the gateway wants that.
//!
//! Nothing waits for it: what a gateway names in time is one more address for the peer, which judges it like the others.
//! Only the default gateway is asked, and only by a host with a private address.

use std::{
    fs,
    future::pending,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU16,
    time::Duration,
};

use crab_nat::{
    GATEWAY_PORT, InternetProtocol, PortMapping, PortMappingOptions, PortMappingType, TimeoutConfig, natpmp,
};
use rc3_net::Endpoint;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::sleep,
};

use super::{addresses::single_host, network::Network, reachable::route_to};

/// Lifetime in seconds. A mapping that nobody deletes is soon gone.
const LIFETIME: u32 = 120;
/// Least time between two renewals, whatever the gateway grants.
const RENEW_AFTER_MIN: Duration = Duration::from_secs(10);
/// Time until a question is repeated (RFC 6886 §3.1), three times at most, and twice as long each time.
const REPEATS: TimeoutConfig =
    TimeoutConfig { initial_timeout: Duration::from_millis(250), max_retries: 3, max_retry_timeout: None };
/// For the deletion, which the end of a transfer waits for.
const ONCE: TimeoutConfig = TimeoutConfig { max_retries: 0, ..REPEATS };

/// A mapping, asked for and renewed in the background. Deleted when this is dropped, if the program lives on so long.
pub(crate) struct Mapping {
    known: Mapped,
    /// Ends the task when dropped.
    ending: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Mapping {
    /// Begins to ask for the port of this endpoint.
    pub(crate) fn ask(endpoint: &Endpoint, network: &Network) -> Self {
        let port = endpoint.local_addr().ok().and_then(|bound| NonZeroU16::new(bound.port()));
        let gateway = if network.maps_ports { Gateway::of_this_host() } else { None };
        Self::at(gateway.zip(port))
    }

    fn at(ends: Option<(Gateway, NonZeroU16)>) -> Self {
        let ((known, mapped), (ending, ended)) = (watch::channel(None), oneshot::channel());
        let task = tokio::spawn(async move {
            if let Some((gateway, port)) = ends {
                gateway.map(port, &known, ended).await;
            }
        });
        Self { known: Mapped(mapped), ending, task }
    }

    /// What is known of it.
    pub(crate) fn mapped(&self) -> Mapped {
        self.known.clone()
    }

    /// Deletes it, which takes as long as the gateway's answer and at most 250 ms.
    pub(crate) async fn end(self) {
        drop(self.ending);
        let _ = self.task.await;
    }
}

/// Where the gateway takes packets for this host, once it has said so.
#[derive(Clone)]
pub(crate) struct Mapped(watch::Receiver<Option<SocketAddr>>);

impl Mapped {
    /// The address, if it is known by now.
    pub(crate) fn now(&self) -> Option<SocketAddr> {
        *self.0.borrow()
    }

    /// The address; without one the future never ends.
    pub(crate) async fn found(mut self) -> SocketAddr {
        let found = self.0.wait_for(Option::is_some).await.ok().and_then(|found| *found);
        match found {
            Some(found) => found,
            None => pending().await,
        }
    }
}

/// The default gateway, and this host's address on the way there.
#[derive(Debug, Clone, Copy)]
struct Gateway {
    ip: Ipv4Addr,
    own: Ipv4Addr,
}

impl Gateway {
    /// That of this host, if its own address is private. Only Linux has the table.
    fn of_this_host() -> Option<Self> {
        let ip = default_route(&fs::read_to_string("/proc/net/route").ok()?)?.1?;
        match route_to((ip, GATEWAY_PORT).into())? {
            IpAddr::V4(own) if is_translated(own) => Some(Self { ip, own }),
            _ => None,
        }
    }

    /// Keeps a mapping until `ended`, and publishes its address.
    async fn map(
        self,
        port: NonZeroU16,
        known: &watch::Sender<Option<SocketAddr>>,
        mut ended: oneshot::Receiver<()>,
    ) {
        let asked = tokio::select! {
            asked = self.ask(port) => asked,
            _ = &mut ended => return,
        };
        let Some((mut mapping, ip)) = asked else { return };
        // None for no time at all, nor one whose renewal failed.
        while mapping.lifetime() > 0 {
            known.send_replace(single_host(SocketAddr::new(ip, mapping.external_port().get())));
            let half = Duration::from_secs((mapping.lifetime().min(LIFETIME) / 2).into());
            tokio::select! {
                () = sleep(half.max(RENEW_AFTER_MIN)) => if mapping.renew().await.is_err() { break },
                _ = &mut ended => {
                    mapping.timeout_config = ONCE;
                    let _ = mapping.try_drop().await;
                    break;
                }
            }
        }
        known.send_replace(None);
    }

    /// A mapping, at the same port if that is free, and its address outside.
    async fn ask(self, port: NonZeroU16) -> Option<(PortMapping, IpAddr)> {
        let options = PortMappingOptions {
            external_port: Some(port),
            lifetime_seconds: Some(LIFETIME),
            timeout_config: Some(REPEATS),
        };
        let (gateway, own) = (self.ip.into(), self.own.into());
        let mapping = PortMapping::new(gateway, own, InternetProtocol::Udp, port, options).await.ok()?;
        let ip = match mapping.mapping_type() {
            PortMappingType::Pcp { external_ip, .. } => external_ip,
            PortMappingType::NatPmp => natpmp::external_address(gateway, Some(REPEATS)).await.ok()?.into(),
        };
        Some((mapping, ip))
    }
}

/// The device of the default route with the lowest metric, in the form of `/proc/net/route`, and its gateway: what leaves
/// by a tunnel passes none.
pub(crate) fn default_route(table: &str) -> Option<(&str, Option<Ipv4Addr>)> {
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [device, "00000000", gateway, _, _, _, metric, "00000000", ..] = fields[..] else { return None };
        // The bytes are in the order of the network, whatever number they are here.
        let gateway = Ipv4Addr::from(u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes());
        let gateway = Some(gateway).filter(|gateway| !gateway.is_unspecified());
        Some((metric.parse::<u32>().ok()?, (device, gateway)))
    });
    routes.min_by_key(|(metric, _)| *metric).map(|(_, route)| route)
}

/// Whether an address means nothing outside of its network (RFC 1918, RFC 6598).
fn is_translated(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    ip.is_private() || (first == 100 && second & 0xc0 == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_of_the_lowest_metric_counts() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let route = |to: &str, via: [u8; 4], metric: u32, mask: &str| {
            let via = u32::from_ne_bytes(via);
            format!("eth{metric}\t{to}\t{via:08X}\t0003\t0\t0\t{metric}\t{mask}\t0\t0\t0\n")
        };
        let lan = route("0001A8C0", [0; 4], 0, "00FFFFFF");
        let far = route("00000000", [192, 168, 1, 1], 600, "00000000");
        let near = route("00000000", [192, 168, 2, 1], 100, "00000000");
        let tunnel = route("00000000", [0; 4], 50, "00000000");
        // Half of all addresses, by a device of its own.
        let half = route("00000000", [0; 4], 1, "00000080");
        let found = |routes: &[&str]| {
            let table = format!("{head}{}", routes.concat());
            default_route(&table).map(|(device, gateway)| (device.to_owned(), gateway))
        };
        let near_gateway = Some([192, 168, 2, 1].into());
        assert_eq!(found(&[&half, &lan, &far, &near]), Some(("eth100".to_owned(), near_gateway)));
        assert_eq!(found(&[&lan, &half]), None);
        assert_eq!(found(&[&far, &tunnel]), Some(("eth50".to_owned(), None)), "a tunnel has no gateway");
        assert_eq!(found(&["x\n", "a 00000000 zz 3 0 0 0 00000000\n"]), None);
    }

    #[test]
    fn only_hosts_behind_a_translator_ask() {
        let of = |ip: &str| is_translated(ip.parse().unwrap());
        assert!(["10.1.2.3", "172.16.0.9", "192.168.0.2", "100.64.0.1", "100.127.255.1"].into_iter().all(of));
        assert!(!["198.51.100.7", "100.128.0.1", "127.0.0.1", "169.254.1.1"].into_iter().any(of));
    }

    /// Each gateway has an address of loopback for itself, and the port of the protocols.
    #[cfg(target_os = "linux")]
    mod gateways {
        use tokio::{net::UdpSocket, time::timeout};

        use super::*;

        const PATIENCE: Duration = Duration::from_secs(20);
        /// Time in which an address would have come.
        const QUIET: Duration = Duration::from_millis(100);
        const PORT: u16 = 40_000;

        /// A gateway at this address, and a mapping that was asked for there.
        async fn ask(nth: u8) -> (UdpSocket, Mapping) {
            let ip = Ipv4Addr::new(127, 58, 83, nth);
            let socket = UdpSocket::bind((ip, GATEWAY_PORT)).await.unwrap();
            let gateway = Gateway { ip, own: Ipv4Addr::LOCALHOST };
            (socket, Mapping::at(Some((gateway, NonZeroU16::new(PORT).unwrap()))))
        }

        async fn request(gateway: &UdpSocket) -> (Vec<u8>, SocketAddr) {
            let mut bytes = [0; 1100];
            let (length, from) = timeout(PATIENCE, gateway.recv_from(&mut bytes)).await.unwrap().unwrap();
            (bytes[..length].to_vec(), from)
        }

        /// Answers one request of PCP: this lifetime, port and address.
        async fn grant(gateway: &UdpSocket, lifetime: u32, port: u16, ip: Ipv4Addr) -> Vec<u8> {
            let (mut bytes, from) = request(gateway).await;
            let asked = bytes.clone();
            bytes[1] |= 0x80;
            bytes[3] = 0;
            bytes[4..8].copy_from_slice(&lifetime.to_be_bytes());
            bytes[8..24].fill(0);
            bytes[42..44].copy_from_slice(&port.to_be_bytes());
            bytes[44..60].copy_from_slice(&ip.to_ipv6_mapped().octets());
            gateway.send_to(&bytes, from).await.unwrap();
            asked
        }

        #[tokio::test]
        async fn a_mapping_of_pcp_is_known_and_deleted_at_the_end() {
            let (gateway, mapping) = ask(1).await;
            assert_eq!(mapping.mapped().now(), None);
            let outside = Ipv4Addr::new(198, 51, 100, 7);
            let asked = grant(&gateway, LIFETIME, 50_000, outside).await;
            assert_eq!(
                (asked[0], asked[1], &asked[4..8], asked[36]),
                (2, 1, &LIFETIME.to_be_bytes()[..], 17)
            );
            assert_eq!([&asked[40..42], &asked[42..44]], [PORT.to_be_bytes(); 2]);
            let found = timeout(PATIENCE, mapping.mapped().found()).await.unwrap();
            assert_eq!(found, (outside, 50_000).into());
            let (deleted, ()) = tokio::join!(grant(&gateway, 0, 0, outside), mapping.end());
            assert_eq!((&deleted[4..8], &deleted[24..36]), (&[0; 4][..], &asked[24..36]));
        }

        #[tokio::test]
        async fn a_gateway_of_nat_pmp_is_asked_in_its_own_language() {
            let (gateway, mapping) = ask(2).await;
            let (first, from) = request(&gateway).await;
            assert_eq!(first[0], 2, "PCP comes first");
            gateway.send_to(&[0, 0x80 | first[1], 0, 1, 0, 0, 0, 9], from).await.unwrap();
            let (asked, from) = request(&gateway).await;
            assert_eq!((&asked[..2], &asked[8..12]), (&[0, 1][..], &LIFETIME.to_be_bytes()[..]));
            let mapped = |port: u16, lifetime: u32| {
                let [high, low] = port.to_be_bytes();
                let mut answer = vec![0, 0x81, 0, 0, 0, 0, 0, 9, asked[4], asked[5], high, low];
                answer.extend(lifetime.to_be_bytes());
                answer
            };
            gateway.send_to(&mapped(50_001, LIFETIME), from).await.unwrap();
            let (asked_where, from) = request(&gateway).await;
            assert_eq!(asked_where, [0, 0]);
            gateway.send_to(&[0, 0x80, 0, 0, 0, 0, 0, 9, 198, 51, 100, 8], from).await.unwrap();
            let found = timeout(PATIENCE, mapping.mapped().found()).await.unwrap();
            assert_eq!(found.to_string(), "198.51.100.8:50001");
            let deletion = async {
                let (deleted, from) = request(&gateway).await;
                gateway.send_to(&mapped(0, 0), from).await.unwrap();
                deleted
            };
            let (deleted, ()) = tokio::join!(deletion, mapping.end());
            assert_eq!((&deleted[..2], &deleted[6..]), (&[0, 1][..], &[0; 6][..]));
        }

        /// One that never answers, one that says nonsense, and those whose answer is of no use.
        #[tokio::test]
        async fn nobody_waits_for_a_gateway_and_its_lies_are_no_address() {
            let (_silent, mapping) = ask(3).await;
            assert_eq!(mapping.mapped().now(), None);
            timeout(PATIENCE, mapping.end()).await.unwrap();
            let outside = Ipv4Addr::new(198, 51, 100, 7);
            let lies = [
                (0, 50_000, outside),
                (LIFETIME, 0, outside),
                (LIFETIME, 50_000, Ipv4Addr::LOCALHOST),
                (LIFETIME, 50_000, Ipv4Addr::UNSPECIFIED),
                (LIFETIME, 50_000, Ipv4Addr::new(224, 0, 0, 1)),
                (u32::MAX, 50_000, Ipv4Addr::LOCALHOST),
            ];
            for (nth, (lifetime, port, ip)) in (4..).zip(lies) {
                let (gateway, mapping) = ask(nth).await;
                grant(&gateway, lifetime, port, ip).await;
                let found = timeout(QUIET, mapping.mapped().found()).await;
                assert_eq!(found.ok(), None, "{lifetime} {port} {ip}");
                // Nobody answers the deletion.
                timeout(PATIENCE, mapping.end()).await.unwrap();
            }
            let (gateway, mapping) = ask(20).await;
            let (_, from) = request(&gateway).await;
            gateway.send_to(&[0xff; 1100], from).await.unwrap();
            timeout(PATIENCE, mapping.task).await.unwrap().unwrap();
        }
    }
}
