//! Hosts at the two ends of one link, with RCP in front of it.

use std::time::{Duration, Instant};

use kickass::rcp::RcpConfig;
use proptest::prelude::*;
use rc3_core::units::{Rate, Span};

use super::{RcpHost, RcpQueue};
use crate::{
    DropTail, Impairments, Link, LinkConfig, LinkStats, Packet,
    agent::{
        Agent, Flow, FlowEvent, FlowId, HostId, Milestone, Parcel, ReceiverCounters, SchemeId,
        SenderCounters, Writes,
    },
};

const DELAY: Duration = Duration::from_millis(20);
const GBIT: u64 = 1_000_000_000;

/// One sending host, one receiving host, a link each way.
struct TwoHosts {
    start: Instant,
    now: Instant,
    sender: RcpHost,
    receiver: RcpHost,
    forward: Link<Parcel>,
    backward: Link<Parcel>,
    /// Flows that have not begun, the last first.
    flows: Vec<Flow>,
    events: Vec<(Duration, FlowId, Milestone)>,
}

impl TwoHosts {
    fn new(bits_per_second: u64, buffer: u64, impairments: Impairments, seed: u64) -> Self {
        let start = Instant::now();
        let rate = Rate::from_bits_per_second(bits_per_second).unwrap();
        let link = |seed| {
            let queue = RcpQueue::new(DropTail::new(buffer), RcpConfig::default(), rate, start, seed);
            let impairments = impairments.clone();
            Link::new(
                LinkConfig { rate: Some(rate), delay: DELAY, impairments, seed, ..LinkConfig::default() },
                queue,
            )
        };
        Self {
            start,
            now: start,
            sender: RcpHost::default(),
            receiver: RcpHost::default(),
            forward: link(seed),
            backward: link(seed.wrapping_add(1)),
            flows: Vec::new(),
            events: Vec::new(),
        }
    }

    fn gigabit() -> Self {
        Self::new(GBIT, u64::MAX, Impairments::default(), 1)
    }

    /// Runs flows of so many bytes from these milliseconds on to the end.
    fn run(&mut self, flows: &[(u64, u64)]) {
        self.run_writing(flows, Writes::AtOnce);
    }

    fn run_writing(&mut self, flows: &[(u64, u64)], writes: Writes) {
        self.flows = flows
            .iter()
            .zip(0..)
            .map(|(&(at, bytes), id)| Flow {
                id: FlowId(id),
                at: Duration::from_millis(at),
                from: HostId(0),
                to: HostId(1),
                bytes,
                scheme: SchemeId(0),
                writes,
            })
            .collect();
        self.flows.sort_by_key(|flow| std::cmp::Reverse(flow.at));
        while let Some(at) = self.next() {
            self.now = self.now.max(at);
            self.step();
        }
    }

    fn next(&self) -> Option<Instant> {
        let flow = self.flows.last().map(|flow| self.start + flow.at);
        let hosts = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        let links = [self.forward.poll_timeout(), self.backward.poll_timeout()];
        hosts.into_iter().chain(links).chain([flow]).flatten().min()
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(flow) = self.flows.pop_if(|flow| self.start + flow.at <= now) {
            self.sender.start(now, &flow);
        }
        while let Some(parcel) = self.forward.poll_output(now) {
            self.receiver.handle(now, parcel);
        }
        while let Some(parcel) = self.backward.poll_output(now) {
            self.sender.handle(now, parcel);
        }
        for (host, link) in [(&mut self.sender, &mut self.forward), (&mut self.receiver, &mut self.backward)]
        {
            host.handle_timeout(now);
            while let Some(packet) = host.poll_transmit(now, link.queue_bytes(now)) {
                link.send(now, packet);
            }
            while let Some(FlowEvent { flow, at, milestone }) = host.poll_event() {
                self.events.push((at - self.start, flow, milestone));
            }
        }
    }

    fn at(&self, id: u32, wanted: impl Fn(&Milestone) -> bool) -> Duration {
        let mut times = self.events.iter().filter(|(_, flow, what)| flow.0 == id && wanted(what));
        let first = times.next().expect("the flow has got there").0;
        assert!(times.next().is_none(), "it gets there once");
        first
    }

    fn last_byte(&self, id: u32) -> Duration {
        self.at(id, |what| matches!(what, Milestone::LastByte(_)))
    }

    fn stats(&self) -> [LinkStats; 2] {
        [self.forward.stats().clone(), self.backward.stats().clone()]
    }
}

/// On the wire at a gigabit.
fn wire(bytes: u64) -> Duration {
    Duration::from_nanos(bytes * 8)
}

#[test]
fn an_idle_link_gives_one_flow_everything_after_the_handshake() {
    let mut world = TwoHosts::gigabit();
    // Ten seconds are enough for the rate to reach the capacity.
    let packets = 10_000;
    world.run(&[(10_000, packets * 1460)]);
    let fct = world.last_byte(0) - Duration::from_secs(10);
    let ideal = DELAY * 3 + wire(80 + packets * 1500);
    assert!(fct >= ideal - Duration::from_micros(1), "{fct:?} is faster than the link, {ideal:?}");
    assert!(fct.as_secs_f64() < ideal.as_secs_f64() * 1.01, "{fct:?} for {ideal:?}");
    let sent = SenderCounters { lost_packets: 0, primary_packets: packets, ..SenderCounters::default() };
    let acked = world.at(0, |what| *what == Milestone::LastAck(sent));
    assert_eq!(acked, world.last_byte(0) + DELAY + wire(40));
}

#[test]
fn the_milestones_of_a_short_flow_are_those_of_paced_packets() {
    let mut world = TwoHosts::gigabit();
    world.run(&[(10_000, 4 * 1460)]);
    let begin = Duration::from_secs(10);
    let handshake = DELAY * 2 + wire(80);
    assert_eq!(world.at(0, |what| *what == Milestone::FirstData), begin + handshake);
    // Three intervals, then the last packet on its way.
    let received = ReceiverCounters { primary_bytes: 4 * 1460, rlp_bytes: 0 };
    let last_byte = world.at(0, |what| *what == Milestone::LastByte(received));
    assert_eq!(last_byte, begin + handshake + wire(4 * 1500) + DELAY);
}

#[test]
fn pacing_makes_few_packets_slower_than_a_burst() {
    let mut world = TwoHosts::gigabit();
    // With seven long flows the rate is about an eighth: four packets take three times eight packet times, a burst
    // takes no more than they do themselves.
    let long = (10_000, 40_000_000);
    world.run(&[long, long, long, long, long, long, long, (12_000, 4 * 1460)]);
    let fct = world.last_byte(7) - Duration::from_secs(12);
    let burst = DELAY * 3 + wire(80 + 4 * 1500);
    assert!(fct > burst + wire(15 * 1500), "{fct:?} for {burst:?}");
    assert!(fct < burst + wire(100 * 1500), "{fct:?} for {burst:?}");
}

#[test]
fn two_flows_share_a_link_fairly() {
    let mut world = TwoHosts::gigabit();
    let bytes = 125_000_000;
    world.run(&[(10_000, bytes), (10_000, bytes)]);
    let ends = [0, 1].map(|id| world.last_byte(id).as_secs_f64() - 10.0);
    assert!((ends[0] / ends[1] - 1.0).abs() < 0.01, "{ends:?}");
    let both = bytes as f64 * 2.0 * 1500.0 / 1460.0 / 125e6;
    assert!(ends.iter().all(|end| *end > both && *end < both * 1.15), "{ends:?} for {both}");
}

#[test]
fn a_flow_that_comes_later_gets_its_half() {
    let mut world = TwoHosts::gigabit();
    world.run(&[(10_000, 200_000_000), (10_500, 62_500_000)]);
    // A second at half the link, while the other goes on.
    let fct = world.last_byte(1).as_secs_f64() - 10.5;
    let half = 62.5e6 * 1500.0 / 1460.0 / 62.5e6;
    assert!(fct > half && fct < half * 1.3, "{fct} for {half}");
    assert!(world.last_byte(0) > world.last_byte(1));
}

#[test]
fn a_full_buffer_is_survived() {
    // 200 flows at once are all granted the whole link.
    let mut world = TwoHosts::new(GBIT / 10, 125_000, Impairments::default(), 3);
    world.run(&vec![(10_000, 146_000); 200]);
    assert!(world.stats()[0].total().dropped.packets > 100);
    let last = (0..200).map(|id| world.last_byte(id)).max().unwrap().as_secs_f64() - 10.0;
    let ideal = 200.0 * 150_000.0 / 12.5e6;
    assert!(last < ideal * 3.0, "{last} for {ideal}");
}

#[test]
fn lost_packets_are_sent_again_without_waiting_for_a_timeout() {
    let mut world = TwoHosts::new(GBIT, u64::MAX, Impairments::loss(0.01), 7);
    let packets = 10_000;
    world.run(&[(10_000, packets * 1460)]);
    // Not from the SYN, which may be lost too.
    let time = world.last_byte(0) - world.at(0, |what| *what == Milestone::FirstData);
    let ideal = DELAY + wire(packets * 1500);
    assert!(time < ideal + DELAY * 6 + ideal / 20, "{time:?} for {ideal:?}");
    let Some((_, _, Milestone::LastAck(sent))) =
        world.events.iter().find(|(.., what)| matches!(what, Milestone::LastAck(_)))
    else {
        panic!("it ends")
    };
    assert!((60..140).contains(&sent.lost_packets), "{sent:?}");
    assert!(sent.primary_packets <= packets + sent.lost_packets, "{sent:?}");
}

#[test]
fn nobody_there_is_a_failure_in_the_end() {
    let mut world = TwoHosts::new(GBIT, u64::MAX, Impairments::loss(1.0), 1);
    world.run(&[(0, 1)]);
    world.at(0, |what| *what == Milestone::Failed);
    assert_eq!(world.events.len(), 1);
}

#[test]
fn chunks_leave_when_they_are_written() {
    let mut world = TwoHosts::gigabit();
    let every = Duration::from_millis(50);
    let writes = Writes::Chunked { first: 2 * 1460, chunk: 1460, every };
    world.run_writing(&[(10_000, 5 * 1460)], writes);
    let opened = Duration::from_secs(10) + DELAY * 2 + wire(80);
    assert_eq!(world.last_byte(0), opened + every * 3 + wire(1500) + DELAY);
    // No rate is requested in between: SYN and five packets.
    assert_eq!(world.stats()[0].total().offered.packets, 6);
}

#[test]
fn a_slow_rate_is_asked_for_anew_each_round_trip() {
    // A link for one packet in 1.2 s, at first a twentieth of that; no packet waits for 24 s.
    let mut world = TwoHosts::new(10_000, u64::MAX, Impairments::default(), 1);
    world.run(&[(0, 3 * 1460)]);
    assert!(world.last_byte(0) < Duration::from_secs(15), "{:?}", world.last_byte(0));
    assert!(world.stats()[0].total().offered.packets > 4 + 3);
}

#[test]
fn packets_of_unknown_flows_bring_no_answer() {
    let mut world = TwoHosts::gigabit();
    world.run(&[(10_000, 3000)]);
    let Packet { payload: syn, .. } = {
        let mut other = RcpHost::default();
        other.start(
            world.now,
            &Flow {
                id: FlowId(9),
                at: Duration::ZERO,
                from: HostId(1),
                to: HostId(0),
                bytes: 1,
                scheme: SchemeId(0),
                writes: Writes::AtOnce,
            },
        );
        other.poll_transmit(world.now, 0).unwrap()
    };
    let crate::agent::Body::Rcp(header) = &syn.body else { panic!("RCP speaks RCP") };
    let segment = super::RcpSegment { number: u64::MAX - 1, offset: 7, len: 9, last: true };
    for kind in [
        super::RcpKind::Data(segment),
        super::RcpKind::Ack { segment, run: Span::new(7, 16), received: 3000 },
        super::RcpKind::SynAck,
        super::RcpKind::RefAck,
    ] {
        let body = crate::agent::Body::Rcp(Box::new(super::RcpHeader { kind, ..**header }));
        world.sender.handle(world.now, Parcel { body, ..syn.clone() });
    }
    assert_eq!(world.sender.poll_transmit(world.now, 0).map(|packet| packet.size), None);
    assert_eq!(world.sender.poll_event(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_path_does_every_flow_ends_once_and_replays(
        flows in prop::collection::vec((0..3000_u64, 0..200_000_u64), 1..8),
        loss in 0.0..0.3,
        duplicate in 0.0..0.3,
        reorder in 0.0..0.3,
        chunked in any::<bool>(),
        megabits in 1..200_u64,
        seed in any::<u64>(),
    ) {
        let every = Duration::from_millis(7);
        let writes =
            if chunked { Writes::Chunked { first: 3000, chunk: 4000, every } } else { Writes::AtOnce };
        let run = || {
            let reorder_delay = Duration::from_millis(3);
            let impairments =
                Impairments { loss, duplicate, reorder, reorder_delay, ..Impairments::default() };
            let mut world = TwoHosts::new(megabits * 1_000_000, 60_000, impairments, seed);
            world.run_writing(&flows, writes);
            (world.events.clone(), world.stats(), world)
        };
        let (events, stats, world) = run();
        for (id, (_, bytes)) in (0..).zip(&flows) {
            let milestones: Vec<_> = events.iter().filter(|(_, flow, _)| flow.0 == id).map(|event| event.2).collect();
            if milestones.last() == Some(&Milestone::Failed) {
                // Nine timeouts in a row: with a tenth lost each way that is less likely than one in a million.
                prop_assert!(loss > 0.1, "given up");
                prop_assert!(!milestones.iter().any(|what| matches!(what, Milestone::LastAck(_))));
                continue;
            }
            prop_assert_eq!(milestones.len(), 3);
            let received = ReceiverCounters { primary_bytes: *bytes, rlp_bytes: 0 };
            let last_byte = world.at(id, |what| *what == Milestone::LastByte(received));
            let last_ack = world.at(id, |what| matches!(what, Milestone::LastAck(_)));
            prop_assert!(last_ack >= last_byte + DELAY);
        }
        let (again, stats_again, _) = run();
        prop_assert_eq!(events, again);
        prop_assert_eq!(stats, stats_again);
    }
}
