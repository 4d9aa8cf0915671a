//! What a packet costs in the router, as in `benches/benches/kickass.rs`.

use std::time::{Duration, Instant};

use crate::net::transport::Result;
use etherparse::{IpNumber, Ipv4Header};
use kickass::{
    Rate,
    queue::DropTail,
    rcp,
    router::{Router, RouterConfig},
};

use super::yardstick;

const LEN: u16 = 1500;
const LIMIT: u64 = 1 << 20;
const PACKETS: u32 = 300_000;
/// Packets that wait while one passes.
const WAITING: usize = 32;
/// Of 1500 bytes at 1 Gbit/s.
const GAP: Duration = Duration::from_micros(12);

/// Ratios of whole and of signalled packets.
pub(super) fn ratios(runs: usize) -> Result<[Vec<f64>; 2]> {
    let mut ratios = [const { Vec::new() }; 2];
    for _ in 0..runs {
        for (ratios, signalled) in ratios.iter_mut().zip([false, true]) {
            let hash = yardstick::hash();
            ratios.push(packet_ns(signalled)? / hash);
        }
    }
    Ok(ratios)
}

/// Nanoseconds of CPU time for a packet, in and out; packets that may be fragmented get a signal.
fn packet_ns(signalled: bool) -> Result<f64> {
    let packet = packet(!signalled)?;
    let mut now = Instant::now();
    let capacity = Rate::from_bits_per_second(1e9).ok_or("no rate")?;
    let config = rcp::RcpConfig::for_codes();
    let law = rcp::Law::new(config, capacity.bytes_per_second(), now, Duration::from_millis(10));
    let mut router = Router::new(RouterConfig::default(), DropTail::new(LIMIT), law, now);
    for _ in 0..WAITING {
        router.enqueue(now, packet.clone())?;
    }
    let mut entered = Ok(());
    let ns = yardstick::each(PACKETS, || {
        now += GAP;
        if let Err(malformed) = router.enqueue(now, packet.clone()) {
            entered = Err(malformed);
        }
        router.dequeue(now);
        if signalled {
            router.dequeue(now);
        }
    });
    entered?;
    Ok(ns)
}

fn packet(dont_fragment: bool) -> Result<Vec<u8>> {
    let mut header = Ipv4Header::new(LEN - 20, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2])?;
    header.dont_fragment = dont_fragment;
    header.header_checksum = header.calc_header_checksum();
    let mut bytes = header.to_bytes().to_vec();
    bytes.resize(LEN.into(), 0);
    Ok(bytes)
}
