//! One direction of the emulated link: a [`Link`] and the background traffic that shares it.
//!
//! Invariant: background packets enter the link at their own instants, in order with the carried ones, however late the
//! emulator runs. Units: sizes are bytes on the wire, headers included.

use std::{net::SocketAddr, time::Instant};

use kickass::packet::FlowKey;
use rc3_core::units::{Level, Rate};
use rc3_link::{Link, Packet, PoissonProcess};
use rc3_queue::Routed;

use super::train::TrafficClass;

const PROTOCOL_UDP: u8 = 17;

/// ECN bits of the IP header: congestion experienced (RFC 3168 §5).
const CE: u8 = 0b11;

/// Size of a background packet: a full Ethernet payload.
const BACKGROUND_SIZE: usize = 1500;

/// A datagram on the link.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    /// The client that sent it or will receive it; `None` of background traffic, which is discarded at the far end.
    pub(super) client: Option<SocketAddr>,
    pub(super) class: TrafficClass,
    /// A copy, so that a queued datagram does not keep the memory of its whole batch.
    pub(super) contents: Box<[u8]>,
}

impl Routed for Carried {
    /// The client's flow: the server is the same for all. Background traffic is one flow.
    fn flow_hash(&self, key: u64) -> u64 {
        let Some(client) = self.client else { return key };
        let (ip, port) = (client.ip(), client.port());
        FlowKey { source: ip, destination: ip, protocol: PROTOCOL_UDP, ports: Some((port, port)) }.hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        let is_capable = self.class.ecn & CE != 0;
        if is_capable {
            self.class.ecn |= CE;
        }
        is_capable
    }
}

/// One direction of the link.
#[derive(Debug)]
pub(super) struct EmulatedPath {
    pub(super) link: Link<Carried>,
    background: Option<PoissonProcess>,
}

impl EmulatedPath {
    pub(super) fn new(link: Link<Carried>, background: Option<PoissonProcess>) -> Self {
        Self { link, background }
    }

    pub(super) fn send(&mut self, now: Instant, packet: Packet<Carried>) {
        self.advance(now);
        self.link.send(now, packet);
    }

    /// The next datagram of a client that has arrived by `now`.
    pub(super) fn poll_output(&mut self, now: Instant) -> Option<(SocketAddr, Carried)> {
        self.advance(now);
        loop {
            let arrived = self.link.poll_output(now)?;
            if let Some(client) = arrived.client {
                return Some((client, arrived));
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        let Some(background) = &mut self.background else { return };
        while let Some(at) = background.poll(now) {
            let class = TrafficClass { dscp: 0, ecn: 0 };
            let payload = Carried { client: None, class, contents: Box::default() };
            self.link.send(at, Packet { size: BACKGROUND_SIZE, level: Level::PRIMARY, payload });
        }
    }
}

/// Full packets from `start` on that take `load` times `rate` on average; `None` for a load of 0.
pub(super) fn background(start: Instant, rate: Rate, load: f64, seed: u64) -> Option<PoissonProcess> {
    let mean_gap = || rate.time_for(BACKGROUND_SIZE as u64).div_f64(load);
    (load > 0.0).then(|| PoissonProcess::new(start, mean_gap(), seed))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rc3_link::LinkConfig;
    use rc3_queue::{DropTail, Tally};

    use super::*;

    fn path(megabits: u64, load: f64, start: Instant) -> EmulatedPath {
        let rate = Rate::from_bits_per_second(megabits * 1_000_000).unwrap();
        let config = LinkConfig { rate: Some(rate), ..LinkConfig::default() };
        let background = super::background(start, rate, load, 5);
        EmulatedPath::new(Link::new(config, DropTail::new(1_000_000)), background)
    }

    #[test]
    fn background_traffic_takes_its_share_of_the_rate() {
        let start = Instant::now();
        let mut path = path(120, 0.3, start);
        assert!(path.poll_output(start + Duration::from_secs(10)).is_none());
        // 30,000 expected; the standard deviation of a Poisson count is its square root.
        let Tally { packets, bytes } = path.link.stats().total().offered;
        assert!((29_300..=30_700).contains(&packets), "{packets}");
        assert_eq!(bytes, packets * 1500);
    }

    #[test]
    fn background_delays_what_is_carried_but_never_comes_out() {
        let start = Instant::now();
        let mut path = path(12, 0.9, start);
        for tick in 0..1000 {
            let now = start + Duration::from_millis(10 * tick);
            let client = Some(SocketAddr::from(([192, 0, 2, 1], tick as u16)));
            let class = TrafficClass { dscp: 0, ecn: 0 };
            let payload = Carried { client, class, contents: Box::default() };
            path.send(now, Packet { size: 100, level: Level::PRIMARY, payload });
        }
        let arrived = std::iter::from_fn(|| path.poll_output(start + Duration::from_secs(20)));
        let output: Vec<u16> = arrived.map(|(client, _)| client.port()).collect();
        assert_eq!(output, (0..1000).collect::<Vec<_>>());
        assert!(path.link.stats().level(Level::PRIMARY).queueing_delay_max > Duration::from_millis(5));
    }

    #[test]
    fn a_load_of_zero_is_no_background_and_the_least_one_is() {
        let rate = Rate::from_bits_per_second(1).unwrap();
        assert!(background(Instant::now(), rate, 0.0, 1).is_none());
        assert!(background(Instant::now(), rate, 1e-6, 1).is_some());
    }

    #[test]
    fn congestion_is_marked_for_endpoints_with_ecn() {
        for (ecn, after) in [(0, 0), (1, 3), (2, 3), (3, 3)] {
            let client = Some(SocketAddr::from(([192, 0, 2, 1], 1)));
            let mut carried =
                Carried { client, class: TrafficClass { dscp: 9, ecn }, contents: Box::default() };
            assert_eq!(carried.mark_congestion(), ecn != 0);
            assert_eq!(carried.class, TrafficClass { dscp: 9, ecn: after });
        }
    }
}
