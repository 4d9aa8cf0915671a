//! What a packet costs in the router, as in `benches/benches/kickass.rs`.

use std::time::{Duration, Instant};

use kickass::{
    Rate,
    queue::DropTail,
    rcp,
    router::{Router, RouterConfig},
};
use rc3_lab::sockets::contenders::Result;

use super::yardstick;

const LEN: usize = 1500;
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
            let hash = yardstick::hash()?;
            ratios.push(packet_ns(signalled)? / hash);
        }
    }
    Ok(ratios)
}

/// Nanoseconds of CPU time for a packet, in and out; packets that may be fragmented get a signal.
fn packet_ns(signalled: bool) -> Result<f64> {
    let packet = packet(!signalled);
    let mut now = Instant::now();
    let capacity = Rate::from_bits_per_second(1e9).ok_or("no rate")?;
    let config = rcp::RcpConfig::for_codes();
    let law = rcp::Law::new(config, capacity.bytes_per_second(), now, Duration::from_millis(10));
    let mut router = Router::new(RouterConfig::default(), DropTail::new(LIMIT), law, now);
    for _ in 0..WAITING {
        router.enqueue(now, packet.clone())?;
    }
    let begun = yardstick::cpu()?;
    for _ in 0..PACKETS {
        now += GAP;
        router.enqueue(now, packet.clone())?;
        router.dequeue(now);
        if signalled {
            router.dequeue(now);
        }
    }
    Ok((yardstick::cpu()? - begun).as_nanos() as f64 / f64::from(PACKETS))
}

/// A UDP datagram over IPv4.
fn packet(dont_fragment: bool) -> Vec<u8> {
    let flags = if dont_fragment { 0x40 } else { 0 };
    let mut bytes = vec![0; LEN];
    bytes[..20].copy_from_slice(&[0x45, 0, 5, 0xdc, 0, 7, flags, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = bytes[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes
}
