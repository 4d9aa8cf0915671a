//! RLP's cost for the primary on a link with strict priority: at most the one packet in transmission.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rc3_core::{
    RlpMode,
    units::{Level, Rate},
};
use rc3_sim::{Datagram, Link, LinkConfig, Packet, Pair, PairConfig, Queue, StrictPriority, Tally, Waiting};

const WIRE_MAX: u64 = 1500;

/// The times of the packets of normal priority.
#[derive(Default)]
struct Log {
    arrived: Vec<(Instant, usize)>,
    departed: Vec<Instant>,
    dropped_primary: u64,
    dropped_low: u64,
}

struct Observed {
    inner: StrictPriority<Waiting<Datagram>>,
    log: Arc<Mutex<Log>>,
}

impl Queue<Waiting<Datagram>> for Observed {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Waiting<Datagram>,
        dropped: &mut dyn FnMut(Waiting<Datagram>),
    ) {
        let mut log = self.log.lock().unwrap();
        if packet.level.is_primary() {
            log.arrived.push((now, packet.size));
        }
        self.inner.enqueue(now, packet, &mut |packet| {
            match packet.level.is_primary() {
                true => log.dropped_primary += 1,
                false => log.dropped_low += 1,
            }
            dropped(packet);
        });
    }

    fn dequeue(
        &mut self,
        now: Instant,
        dropped: &mut dyn FnMut(Waiting<Datagram>),
    ) -> Option<Waiting<Datagram>> {
        let packet = self.inner.dequeue(now, dropped)?;
        if packet.level.is_primary() {
            self.log.lock().unwrap().departed.push(now);
        }
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        self.inner.waiting()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }
}

/// When the transmission of each packet of normal priority would begin without others.
fn alone(arrived: &[(Instant, usize)], rate: Rate) -> Vec<Instant> {
    let config = LinkConfig { rate: Some(rate), ..LinkConfig::default() };
    let mut link = Link::new(config, StrictPriority::by_level(u64::MAX / 2));
    let mut departed = vec![None; arrived.len()];
    let mut drain = |link: &mut Link<(usize, usize)>, now| {
        while let Some(at) = link.poll_timeout().filter(|&at| at <= now) {
            while let Some((nth, size)) = link.poll_output(at) {
                departed[nth] = Some(at - rate.time_for(size as u64));
            }
        }
    };
    for (nth, &(at, size)) in arrived.iter().enumerate() {
        drain(&mut link, at);
        link.send(at, Packet { size, level: Level::PRIMARY, payload: (nth, size) });
    }
    drain(&mut link, arrived.last().unwrap().0 + Duration::from_secs(3600));
    departed.into_iter().map(|departed| departed.expect("sent in an hour")).collect()
}

fn observe(mbits: u64, delay_ms: u64, buffer: u64, bytes: u64, nic_mbits: Option<u64>) -> Log {
    let megabits = |mbits: u64| Rate::from_bits_per_second(mbits * 1_000_000);
    let rate = megabits(mbits).unwrap();
    let link =
        LinkConfig { rate: Some(rate), delay: Duration::from_millis(delay_ms), ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link.clone(), buffer);
    config.client.rlp(RlpMode::Trust).nic_rate(nic_mbits.and_then(megabits)).paced(false);
    let mut pair = Pair::new(config);
    let log = Arc::<Mutex<Log>>::default();
    let observed = Observed { inner: StrictPriority::by_level(buffer), log: log.clone() };
    pair.set_forward_queue(link, Box::new(observed));
    pair.flow(bytes, Duration::from_secs(600)).expect("it arrives");
    drop(pair);
    let log = Arc::into_inner(log).expect("the only one").into_inner().unwrap();
    assert_eq!(log.dropped_primary, 0, "{mbits} Mbit/s");
    let shadow = alone(&log.arrived, rate);
    let one_packet = rate.time_for(WIRE_MAX);
    for (nth, (departed, alone)) in log.departed.iter().zip(&shadow).enumerate() {
        assert!(*departed <= *alone + one_packet, "packet {nth}: {:?} late", *departed - *alone);
    }
    log
}

#[test]
fn rlp_delays_the_primary_by_the_packet_being_sent_at_most() {
    let cases = [(5, 10, 200_000, 300_000), (100, 20, 500_000, 900_000), (1000, 20, 5_000_000, 8_000_000)];
    for (mbits, delay_ms, buffer, bytes) in cases {
        // Everything at once, as with a card much faster than the link.
        let log = observe(mbits, delay_ms, buffer, bytes, None);
        assert!(log.dropped_low > 0, "{mbits} Mbit/s: the link was never full, which proves nothing");
    }
}

#[test]
fn rlp_at_the_speed_of_the_link_loses_nothing() {
    let log = observe(100, 20, 500_000, 3_000_000, Some(100));
    assert_eq!(log.dropped_low, 0);
}
