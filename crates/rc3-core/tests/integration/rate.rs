//! External controllers with a pacing rate, in simulated time.

use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_core::{
    Dir, RlpMode,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
    units::{Level, Rate},
};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const MTU: u16 = 1472;
const RTT: Duration = Duration::from_millis(40);
/// Bits per second for the first hundred packets; from then on five times as much.
const SLOW: u64 = 2_000_000;
const FAST: u64 = 5 * SLOW;
const SLOW_PACKETS: usize = 100;

/// Has a rate but no bound.
#[derive(Debug, Clone)]
struct Told {
    full_packets: usize,
}

impl ControllerFactory for Told {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self::clone(&self))
    }
}

impl Controller for Told {
    fn on_sent(&mut self, _: Instant, bytes: u64, _: u64) {
        self.full_packets += usize::from(bytes == u64::from(MTU));
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1 << 40
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.pacing_rate = Some(if self.full_packets > SLOW_PACKETS { FAST } else { SLOW });
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// When long packets of the primary leave, from the first of them on, with plenty to send on a fast link.
fn departures(rlp: RlpMode, paced: bool) -> Vec<Duration> {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).initial_mtu(MTU).mtu_discovery(false).paced(paced);
    }
    config.client.congestion_controller_factory(Arc::new(Told { full_packets: 0 }));
    let mut pair = Pair::new(config);
    let client = pair.connect();
    // The handshake and its aftermath are over.
    pair.drive_until(RTT * 8, |_| false);
    let id = pair.client.with(client, |connection| connection.open(Dir::Uni)).unwrap();
    pair.client.with(client, |connection| connection.write(id, vec![1; 600_000].into())).unwrap();
    let bytes = |pair: &Pair| pair.forward.stats().level(Level::PRIMARY).offered.bytes;
    let mut times = Vec::new();
    let end = pair.now + Duration::from_secs(1);
    while pair.now < end {
        let (at, before) = (pair.now, bytes(&pair));
        assert!(pair.step());
        let left = bytes(&pair) - before;
        if left > u64::from(MTU) / 2 {
            assert!(left < 3 * u64::from(MTU) / 2, "one at a time, {left} after {}", times.len());
            times.push(at);
        }
    }
    times.iter().map(|&at| at - times[0]).collect()
}

#[test]
fn packets_leave_at_the_rate_that_a_controller_names() {
    let packet = |rate: u64| Duration::from_nanos(u64::from(MTU) * 8_000_000_000 / rate);
    for paced in [true, false] {
        let departures = departures(RlpMode::Off, paced);
        let (slow, fast) = departures.split_at(SLOW_PACKETS);
        for (times, rate) in [(slow, SLOW), (fast, FAST)] {
            for gap in times.windows(2).map(|pair| pair[1] - pair[0]) {
                assert!(gap.abs_diff(packet(rate)) < Duration::from_micros(2), "{gap:?} at {rate}");
            }
        }
        assert!(fast.len() > 200, "{}", fast.len());
    }
}

#[test]
fn beside_rlp_the_primary_keeps_to_it() {
    // RLP delivers all except what the primary has handed over by then.
    let departures = departures(RlpMode::Trust, true);
    assert!(departures.len() > 2, "{}", departures.len());
    let packet = Duration::from_nanos(u64::from(MTU) * 8_000_000_000 / SLOW);
    for gap in departures.windows(2).map(|pair| pair[1] - pair[0]) {
        // A packet is some bytes short of full where an acknowledgment had room in it.
        assert!(gap > packet * 9 / 10, "{gap:?}");
    }
}
