//! What simulating costs: microseconds of one core per connection and per data packet, both ends and the link between
//! them together.
//!
//! ```text
//! cargo run --release -p rc3-sim --example cost [CONNECTIONS [NAME]]
//! ```

mod meter;

use std::time::Duration;

use bytes::Bytes;
use meter::{busy, resident};
use rc3_core::{
    AckFrequencyConfig, Congestion, ConnectionHandle, Dir, RlpMode, StreamId, VarInt, units::Rate,
};
use rc3_sim::{Crypto, LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);

fn world(rlp: RlpMode) -> Pair {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    let mut every_packet = AckFrequencyConfig::default();
    every_packet.ack_eliciting_threshold(VarInt::from_u32(0));
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate).segment_size(Some(1460)).initial_packets(Some(4)).paced(false);
        side.congestion(Congestion::NewReno).ack_frequency_config(Some(every_packet.clone()));
        side.max_concurrent_bidi_streams(VarInt::from_u32(0)).max_concurrent_uni_streams(VarInt::from_u32(1));
    }
    config.crypto = Crypto::None;
    Pair::new(config)
}

struct Flow {
    client: ConnectionHandle,
    server: Option<ConnectionHandle>,
    stream: Option<StreamId>,
    arriving: Option<StreamId>,
    left: u64,
    done: bool,
}

/// Flows that begin together; whether all have arrived after a step.
fn pump(pair: &mut Pair, flows: &mut [Flow], zeros: &Bytes) -> bool {
    while let Some((handle, _)) = pair.client.events.pop_front() {
        let Some(flow) = flows.iter_mut().find(|flow| flow.client == handle) else { continue };
        write(pair, flow, zeros);
    }
    while let Some((handle, _)) = pair.server.events.pop_front() {
        let nth = pair.server.accepted.iter().position(|&accepted| accepted == handle);
        let Some(flow) = nth.and_then(|nth| flows.get_mut(nth)).filter(|flow| !flow.done) else { continue };
        flow.server = Some(handle);
        read(pair, flow);
    }
    flows.iter().all(|flow| flow.done)
}

fn write(pair: &mut Pair, flow: &mut Flow, zeros: &Bytes) {
    if flow.stream.is_none() {
        flow.stream = pair.client.with(flow.client, |connection| connection.open(Dir::Uni));
    }
    let Some(id) = flow.stream else { return };
    while flow.left > 0 {
        let data = zeros.slice(..zeros.len().min(flow.left as usize));
        let Ok(taken) = pair.client.with(flow.client, |connection| connection.write(id, data)) else {
            return;
        };
        flow.left -= taken as u64;
        if flow.left == 0 {
            pair.client.with(flow.client, |connection| connection.finish(id)).expect("an open stream");
        }
    }
}

fn read(pair: &mut Pair, flow: &mut Flow) {
    let Some(handle) = flow.server else { return };
    flow.arriving =
        flow.arriving.or_else(|| pair.server.with(handle, |connection| connection.accept(Dir::Uni)));
    let Some(id) = flow.arriving else { return };
    let ended = pair.server.with(handle, |connection| {
        loop {
            match connection.read(id, usize::MAX, true) {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        }
    });
    flow.done |= ended;
}

/// Runs `rounds` of `together` flows and returns their cost.
fn measure(name: &str, rlp: RlpMode, rounds: usize, together: usize, bytes: u64) {
    let mut pair = world(rlp);
    let zeros = Bytes::from(vec![0; 1 << 20]);
    let before = resident();
    let mut most = 0;
    let start = busy();
    for _ in 0..rounds {
        pair.server.accepted.clear();
        let mut flows: Vec<Flow> = (0..together)
            .map(|_| Flow {
                client: pair.connect(),
                server: None,
                stream: None,
                arriving: None,
                left: bytes,
                done: false,
            })
            .collect();
        let arrived = pair.drive_until(Duration::from_secs(60), |pair| pump(pair, &mut flows, &zeros));
        assert!(arrived, "a flow did not arrive");
        most = most.max(resident());
        let now = pair.now;
        for flow in flows {
            pair.client
                .with(flow.client, |connection| connection.close(now, VarInt::from_u32(0), Bytes::new()));
        }
        pair.drive_until(Duration::from_secs(10), |_| false);
        pair.client.events.clear();
        pair.server.events.clear();
    }
    let elapsed = (busy() - start) * 1e6;
    let connections = (rounds * together) as f64;
    let packets = connections * bytes.div_ceil(1460) as f64;
    println!(
        "{name:<34} {:>9.2} us per connection {:>7.3} us per 1460 bytes {:>7.1} KB per live connection",
        elapsed / connections,
        elapsed / packets,
        most.saturating_sub(before) as f64 / 1e3 / together as f64,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let scale = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let only = arguments.next().unwrap_or_default();
    let measure = |name: &str, rlp, rounds, together, bytes| {
        if name.contains(&only) {
            measure(name, rlp, rounds, together, bytes);
        }
    };
    for rlp in [RlpMode::Off, RlpMode::Trust] {
        println!("{rlp:?}");
        measure("one connection at a time, 1 byte", rlp, scale, 1, 1);
        measure("200 connections at once, 1 byte", rlp, scale / 200, 200, 1);
        measure("200 connections at once, 50 KB", rlp, scale / 200, 200, 50_000);
        measure("1000 connections at once, 50 KB", rlp, scale / 1000, 1000, 50_000);
        measure("one flow of 10 KB", rlp, scale, 1, 10_000);
        measure("one flow of 1 MB", rlp, scale / 20, 1, 1_000_000);
        measure("one flow of 100 MB", rlp, scale / 1000, 1, 100_000_000);
    }
}
