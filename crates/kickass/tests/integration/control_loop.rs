//! The closed loop: senders and receivers of [`kickass::endpoint`] through one router with RCP.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::common::V4;
use kickass::{
    Rate,
    code::Code,
    endpoint::{self, Echo, Mode},
    indicator::{self, Bucket},
    packet::Packet,
    queue::DropTail,
    rcp,
    router::{Router, RouterConfig},
    sampling::Sampling,
    signal,
    silence::SilenceRule,
};

const RTT: Duration = Duration::from_millis(50);
const MEGABITS: f64 = 30.0;
const STEP: Duration = Duration::from_micros(100);

/// Time between the starts of two flows: not a multiple of the round trip, or all would pace in step.
const APART: Duration = Duration::from_millis(107);

/// One flow: its sender, its receiver, and the packets between them.
struct Connection {
    data: V4,
    sender: endpoint::Sender,
    echo: Echo,
    in_flight: u64,
    /// When pacing allows the next packet.
    next: Instant,
    next_indicator: Instant,
    /// Packets in the router's queue, with the times they were sent.
    waiting: VecDeque<(Instant, u64)>,
    /// Reports on their way to the sender, with arrival times.
    reports: VecDeque<(Instant, Report)>,
    delivered: usize,
}

enum Report {
    Arrived { sent: Instant, bytes: u64 },
    Lost { sent: Instant, bytes: u64 },
    Signalled(Code),
}

impl Connection {
    fn new(number: u8, first: Instant) -> Self {
        Self {
            data: V4 { source: [10, 0, 1, number], ..V4::default() },
            sender: endpoint::Sender::new(endpoint::SenderConfig {
                initial_rtt: RTT,
                ..endpoint::SenderConfig::default()
            }),
            echo: Echo::default(),
            in_flight: 0,
            next: first,
            next_indicator: first,
            waiting: VecDeque::new(),
            reports: VecDeque::new(),
            delivered: 0,
        }
    }

    fn hear(&mut self, now: Instant) {
        while self.reports.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, report)) = self.reports.pop_front() else { return };
            match report {
                Report::Arrived { sent, bytes } => {
                    self.in_flight -= bytes;
                    self.sender.on_ack(now, sent, bytes, false, RTT);
                }
                Report::Lost { sent, bytes } => {
                    self.in_flight -= bytes;
                    self.sender.on_congestion(now, sent, false);
                }
                Report::Signalled(code) => self.sender.on_signal(now, code),
            }
        }
        self.sender.handle_timeout(now);
    }

    /// The next packet, if window and pacing allow one.
    fn poll_transmit(&mut self, now: Instant) -> Option<V4> {
        let mut packet = self.data.clone();
        if self.next_indicator <= now {
            packet.payload_len = Bucket::of(RTT).total_len() - 20;
            packet.dont_fragment = true;
        }
        let len = packet.payload_len as u64 + 20;
        // A window below a packet still allows one.
        if now < self.next || (self.in_flight > 0 && self.in_flight + len > self.sender.window()) {
            return None;
        }
        if packet.dont_fragment {
            self.next_indicator += indicator::INTERVAL;
        }
        self.next = self.sender.pacing().map_or(now, |gap| self.next.max(now - STEP) + gap);
        self.in_flight += len;
        Some(packet)
    }

    /// The router dropped the packet sent last.
    fn lost(&mut self, now: Instant, bytes: u64) {
        self.reports.push_back((now + RTT, Report::Lost { sent: now, bytes }));
    }

    /// A packet or fragment left the router.
    fn passed(&mut self, now: Instant, packet: &Packet) {
        if let Some(len) = packet.leading_len() {
            self.echo.on_leading(len);
        }
        if packet.fragment().is_none_or(|fragment| !fragment.more) {
            let (sent, bytes) = self.waiting.pop_front().unwrap();
            self.reports.push_back((now + RTT, Report::Arrived { sent, bytes }));
        }
        if let Some(code) = self.echo.poll(now, RTT) {
            self.reports.push_back((now + RTT, Report::Signalled(code)));
        }
    }
}

struct Outcome {
    /// Fraction of the link that was used in the second half of the time.
    utilisation: f64,
    /// Median of the queue in bytes in that half.
    queue_median: u64,
    /// What each sender got, relative to its fair share.
    shares: Vec<f64>,
    /// Fragmented packets per arriving packet.
    fragmented: f64,
    /// Packets dropped in that half.
    dropped: u64,
    /// Flows in Kick-Ass mode at the end.
    in_kickass_mode: usize,
}

/// Lets this many flows send for twenty seconds, each starting `apart` after the one before.
fn run(flows: u8, apart: Duration, sampling: Sampling, silence: SilenceRule) -> Outcome {
    let start = Instant::now();
    let link = Rate::nearest(MEGABITS * 1e6).unwrap();
    let law = rcp::RcpLaw::new(
        rcp::RcpConfig::for_codes(),
        link.bytes_per_second(),
        start,
        Duration::from_millis(10),
    );
    let signals = signal::SignalConfig { sampling, silence, ..signal::SignalConfig::default() };
    let config = RouterConfig { signals, link: Some(link), ..RouterConfig::default() };
    let mut router = Router::new(config, DropTail::new(375_000), law, start);
    let mut flows: Vec<Connection> =
        (0..flows).map(|number| Connection::new(number, start + apart * number.into())).collect();
    let mut queues = Vec::new();
    let half = start + Duration::from_secs(10);
    let end = half + Duration::from_secs(10);
    let mut now = start;
    let mut dropped = 0;
    while now < end {
        now += STEP;
        if now <= half {
            dropped = router.stats().dropped().packets;
        }
        for flow in &mut flows {
            flow.hear(now);
            while let Some(packet) = flow.poll_transmit(now) {
                let (bytes, before) = (packet.payload_len as u64 + 20, router.stats().dropped().packets);
                router.enqueue(now, packet.bytes()).unwrap();
                if router.stats().dropped().packets > before {
                    flow.lost(now, bytes);
                } else {
                    flow.waiting.push_back((now, bytes));
                }
            }
        }
        while let Some(packet) = router.dequeue(now) {
            let std::net::IpAddr::V4(source) = packet.source() else { unreachable!() };
            let flow = &mut flows[usize::from(source.octets()[3])];
            if now > half {
                flow.delivered += packet.total_len();
            }
            flow.passed(now, &packet);
        }
        if now > half {
            queues.push(router.stats().waiting.bytes);
        }
    }
    let stats = router.stats();
    queues.sort_unstable();
    let capacity = 10.0 * link.bytes_per_second();
    let fair = capacity / flows.len() as f64;
    Outcome {
        utilisation: flows.iter().map(|flow| flow.delivered as f64).sum::<f64>() / capacity,
        queue_median: queues[queues.len() / 2],
        shares: flows.iter().map(|flow| flow.delivered as f64 / fair).collect(),
        dropped: stats.dropped().packets - dropped,
        in_kickass_mode: flows.iter().filter(|flow| flow.sender.mode() == Mode::KickAss).count(),
        fragmented: stats.signalled as f64 / stats.arrived.packets as f64,
    }
}

fn check(outcome: &Outcome) {
    let Outcome { utilisation, queue_median, shares, dropped, in_kickass_mode, .. } = outcome;
    assert_eq!((*dropped, *in_kickass_mode), (0, shares.len()));
    assert!(*utilisation > 0.94, "{utilisation}");
    // 2 ms of the link.
    assert!(*queue_median < 5 * 1500, "{queue_median}");
    // Half a code step up or down, and as much for the law.
    assert!(shares.iter().all(|share| (0.9..1.1).contains(share)), "{shares:?}");
}

#[test]
fn senders_that_follow_signals_share_the_link_and_leave_its_queue_empty() {
    for flows in [1, 3, 10, 40] {
        let outcome = run(flows, APART, Sampling::Always, SilenceRule::default());
        check(&outcome);
        assert!(outcome.fragmented > 0.5);
    }
}

#[test]
fn a_few_signals_per_round_trip_do_as_well() {
    let outcome = run(3, APART, Sampling::Flows(1024), SilenceRule::default());
    check(&outcome);
    // A bucket that begins at 32 ms makes 62 signals per second for each flow of 833 packets per second.
    assert!(outcome.fragmented < 0.1, "{}", outcome.fragmented);
}

/// Forty initial windows at once fill more than half the queue. By the paper's rule the router then stops signalling,
/// and NewReno keeps the queue full (Kick-Ass §2.3.2). A router that first checks whether senders follow does not stop.
#[test]
fn flows_that_fill_the_queue_before_the_first_signal_run_tcp_unless_the_router_signals_all_the_same() {
    let run = |rule| run(40, Duration::from_millis(7), Sampling::Always, rule);
    let outcome = run(SilenceRule::Threshold);
    assert!(outcome.in_kickass_mode < 10, "{}", outcome.in_kickass_mode);
    assert!(outcome.utilisation > 0.94, "{}", outcome.utilisation);
    assert!(outcome.queue_median > 375_000 / 2, "{}", outcome.queue_median);
    let outcome = run(SilenceRule::Ignored);
    assert_eq!(outcome.in_kickass_mode, 40);
    assert!(outcome.utilisation > 0.94 && outcome.queue_median < 5 * 1500, "{}", outcome.queue_median);
}
