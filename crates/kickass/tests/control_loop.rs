//! The loop closed: senders that pace at what they are told, through one router with RCP.

#![expect(clippy::disallowed_methods, reason = "tests need some instant to start from")]

mod common;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use common::V4;
use kickass::{
    Rate,
    code::Code,
    indicator::{self, Bucket},
    queue::DropTail,
    rcp,
    router::{Config, Router},
    sampling::Sampling,
    signal,
};

const RTT: Duration = Duration::from_millis(50);
const MEGABITS: f64 = 30.0;
const STEP: Duration = Duration::from_micros(100);

struct Sender {
    /// As told last; nobody has told it anything before the first answer.
    rate: Option<Rate>,
    told_at: Instant,
    next: Instant,
    next_indicator: Instant,
    delivered: usize,
}

struct Outcome {
    /// Part of the link that was filled in the second half of the time.
    utilisation: f64,
    /// Bytes that waited, in the middle of all looks at the queue in that half.
    queue_median: u64,
    /// What each sender got of a fair share.
    shares: Vec<f64>,
    /// Packets fragmented for each that came.
    fragmented: f64,
}

/// Lets so many senders send for twenty seconds.
fn run(flows: u8, sampling: Sampling) -> Outcome {
    let start = Instant::now();
    let link = Rate::from_bits_per_second(MEGABITS * 1e6).unwrap();
    let law =
        rcp::Law::new(rcp::Config::default(), link.bytes_per_second(), start, Duration::from_millis(10));
    let signals = signal::Config { sampling, ..signal::Config::default() };
    let config = Config { signals, link: Some(link), ..Config::default() };
    let mut router = Router::new(config, DropTail::new(375_000), law, start);
    let mut senders: Vec<Sender> = (0..flows)
        .map(|flow| {
            let first = start + Duration::from_millis(7) * flow.into();
            Sender { rate: None, told_at: first, next: first, next_indicator: first, delivered: 0 }
        })
        .collect();
    // Codes on their way to the receiver and back, with the sender's number.
    let mut told: VecDeque<(Instant, usize, Code)> = VecDeque::new();
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
        while let Some(&(at, sender, code)) = told.front()
            && at <= now
        {
            senders[sender].rate = Some(code.rate());
            senders[sender].told_at = now;
            told.pop_front();
        }
        for (number, sender) in senders.iter_mut().enumerate() {
            let data = V4 { source: [10, 0, 1, number as u8], ..V4::default() };
            // Silence means that the router is overloaded (Kick-Ass §2.3.2). TCP would be left to decide; here a
            // packet per round trip.
            if now > sender.told_at + 2 * RTT {
                sender.rate = None;
            }
            while sender.next <= now {
                let mut packet = data.clone();
                if sender.next_indicator <= now {
                    packet.payload_len = Bucket::of(RTT).total_len() - 20;
                    packet.dont_fragment = true;
                    sender.next_indicator += indicator::INTERVAL;
                }
                let len = packet.payload_len + 20;
                router.enqueue(now, packet.bytes()).unwrap();
                sender.next += match sender.rate {
                    Some(rate) => Duration::from_secs_f64(len as f64 / rate.bytes_per_second()),
                    None => RTT,
                };
            }
        }
        while let Some(packet) = router.dequeue(now) {
            let std::net::IpAddr::V4(source) = packet.source() else { unreachable!() };
            let sender = usize::from(source.octets()[3]);
            if now > half {
                senders[sender].delivered += packet.total_len();
            }
            if let Some(code) = packet.leading_len().and_then(Code::from_len) {
                told.push_back((now + RTT, sender, code));
            }
        }
        if now > half {
            queues.push(router.stats().waiting.bytes);
        }
    }
    let stats = router.stats();
    assert_eq!(stats.dropped().packets, dropped, "drops in the second half");
    queues.sort_unstable();
    let capacity = 10.0 * link.bytes_per_second();
    let fair = capacity / f64::from(flows);
    Outcome {
        utilisation: senders.iter().map(|sender| sender.delivered as f64).sum::<f64>() / capacity,
        queue_median: queues[queues.len() / 2],
        shares: senders.iter().map(|sender| sender.delivered as f64 / fair).collect(),
        fragmented: stats.signalled as f64 / stats.arrived.packets as f64,
    }
}

fn check(outcome: &Outcome) {
    let Outcome { utilisation, queue_median, shares, .. } = outcome;
    assert!(*utilisation > 0.94, "{utilisation}");
    // 2 ms of the link.
    assert!(*queue_median < 5 * 1500, "{queue_median}");
    // Half a step of the code up or down, and as much by the law.
    assert!(shares.iter().all(|share| (0.9..1.1).contains(share)), "{shares:?}");
}

#[test]
fn senders_that_do_as_they_are_told_share_the_link_and_leave_its_queue_empty() {
    for flows in [1, 3, 10, 40] {
        let outcome = run(flows, Sampling::Always);
        check(&outcome);
        assert!(outcome.fragmented > 0.5);
    }
}

#[test]
fn a_few_signals_per_round_trip_do_as_well() {
    let outcome = run(3, Sampling::Flows { table: 1024 });
    check(&outcome);
    // A bucket that begins at 32 ms makes 62 signals per second of each flow, of 833 packets.
    assert!(outcome.fragmented < 0.1, "{}", outcome.fragmented);
}
