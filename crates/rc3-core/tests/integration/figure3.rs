//! The worked example of RC3 §2.2 and its Figure 3: 66 packets over a link that holds 50 in a round trip; the network
//! drops the 21st and the 22nd.
//!
//! One packet here is the content of an RLP datagram. A packet of the primary carries a little less (room for an ACK),
//! so the borders between the loops may differ from the paper's by one packet.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rc3_core::{
    Congestion, Dir, Ladder,
    units::{Level, Rate},
};
use rc3_sim::{Datagram, LinkConfig, Pair, PairConfig, Queue, StrictPriority, Tally, Waiting};

const MTU: u64 = 1472;
const WIRE: u64 = MTU + 28;
/// UDP payload less header (13), tag (16) and DATA frame header (1 + 1 + 4 + 4).
const PACKET: u64 = MTU - 39;
const RTT: Duration = Duration::from_millis(500);
const PACKETS: u64 = 66;
const PACKETS_PER_RTT: u64 = 50;

/// A packet on the wire.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    level: Level,
    size: usize,
}

/// A queue that logs what the card transmits and drops the given RLP packets, counted from 1.
struct Lossy {
    inner: StrictPriority<Waiting<Datagram>>,
    log: Arc<Mutex<Vec<Sent>>>,
    rlp_seen: u64,
    drop: RangeInclusive<u64>,
}

impl Queue<Waiting<Datagram>> for Lossy {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Waiting<Datagram>,
        dropped: &mut dyn FnMut(Waiting<Datagram>),
    ) {
        if !packet.level.is_primary() {
            self.rlp_seen += 1;
            if self.drop.contains(&self.rlp_seen) {
                return dropped(packet);
            }
        }
        self.inner.enqueue(now, packet, dropped);
    }

    fn dequeue(
        &mut self,
        now: Instant,
        dropped: &mut dyn FnMut(Waiting<Datagram>),
    ) -> Option<Waiting<Datagram>> {
        let packet = self.inner.dequeue(now, dropped)?;
        self.log.lock().unwrap().push(Sent { at: now, level: packet.level, size: packet.size });
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        self.inner.waiting()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }
}

#[test]
fn sixty_six_packets_as_in_figure_3() {
    let rate = Rate::from_bits_per_second(PACKETS_PER_RTT * WIRE * 8 * 1000 / RTT.as_millis() as u64);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link.clone(), PACKETS_PER_RTT * WIRE);
    for side in [&mut config.client, &mut config.server] {
        side.ladder(Ladder::geometric(40, 10, 7)).nic_rate(rate);
        side.congestion(Congestion::NewReno).initial_window(Some(4 * MTU + 1)).paced(false);
        side.initial_mtu(MTU as u16).mtu_discovery(false);
    }
    let mut pair = Pair::new(config);
    // RLP sends packet 66 first, so its 45th and 46th are packets 22 and 21.
    let log = Arc::<Mutex<Vec<Sent>>>::default();
    let inner = StrictPriority::by_level(PACKETS_PER_RTT * WIRE);
    pair.set_forward_queue(link, Box::new(Lossy { inner, log: log.clone(), rlp_seen: 0, drop: 45..=46 }));

    let handle = pair.connect();
    assert!(pair.drive_until(RTT * 3, |pair| !pair.client.connection(handle).unwrap().is_handshaking()));
    let start = pair.now;
    log.lock().unwrap().clear();
    let stream = pair.client.with(handle, |c| c.open(Dir::Uni)).unwrap();
    let data = vec![1; (PACKETS * PACKET) as usize];
    pair.client.with(handle, |c| c.write(stream, data.into())).unwrap();
    pair.client.with(handle, |c| c.finish(stream)).unwrap();
    let server = pair.server.accepted[0];
    let mut received = 0;
    let mut accepted = None;
    assert!(pair.drive_until(RTT * 10, |pair| {
        accepted = accepted.or_else(|| pair.server.with(server, |c| c.accept(Dir::Uni)));
        let Some(stream) = accepted else { return false };
        loop {
            match pair.server.with(server, |c| c.read(stream, usize::MAX, true)) {
                Ok(Some(chunk)) => received += chunk.bytes.len() as u64,
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }));
    let fct = pair.now - start;
    assert_eq!(received, PACKETS * PACKET);

    let log = log.lock().unwrap();
    // Full data packets in one of the round trips of the sender, by level; ACKs and control frames are short.
    let sent_in = |round: u32, level: u8| {
        let (from, to) = (start + RTT * round, start + RTT * (round + 1));
        let full = log.iter().filter(|sent| sent.size as u64 > WIRE / 2 && (from..to).contains(&sent.at));
        full.filter(|sent| sent.level.get() == level).count() as u64
    };
    let table: Vec<[u64; 3]> = (0..4).map(|round| [0, 1, 2].map(|level| sent_in(round, level))).collect();
    println!("sent per round trip at priority 0, 1, 2: {table:?}");

    // First round trip: 4 packets by the primary, then RLP fills the remaining 46: 40 at level 1, the rest at 2.
    assert_eq!(table[0][0], 4);
    assert_eq!(table[0][1], 40);
    assert!(table[0][2].abs_diff(6) <= 1, "{table:?}");
    // Second: the window has doubled; RLP continues downward until it meets the primary.
    assert_eq!(table[1][0], 8);
    // (Two of the packets at level 2 never reached the wire.)
    assert!((table[0][2] + table[1][2] + 2).abs_diff(66 - 40 - 4 - 8) <= 1, "{table:?}");
    assert_eq!(table[1][1], 0);
    // Third: the ACK bump has moved the primary over what RLP delivered. Packets 21 and 22 are missing; so are those
    // whose SACK is still in flight, which the paper's picture of whole round trips omits.
    assert!((2..=2 + table[1][2]).contains(&table[2][0]), "{table:?}");
    assert_eq!(table[2][1..], [0, 0]);
    // Fourth: only acknowledgments.
    assert_eq!(table[3], [0, 0, 0]);

    let stats = pair.client.connection(handle).unwrap().stats();
    let sent = &stats.sent;
    let first_by_primary = sent.primary_bytes - sent.duplicate_bytes;
    assert!(first_by_primary.abs_diff(12 * PACKET) <= PACKET, "{sent:?}");
    assert_eq!(sent.primary_bytes + sent.skipped_bytes, PACKETS * PACKET);
    // Duplicates: the two lost ones, and those in flight.
    assert!((2 * PACKET..=(3 + table[1][2]) * PACKET).contains(&sent.duplicate_bytes), "{sent:?}");
    // Two round trips and a half, and two packets' time.
    assert!(fct >= RTT * 5 / 2 && fct < RTT * 28 / 10, "{fct:?}");
}
