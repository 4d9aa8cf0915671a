//! Tests of a whole link.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rc3_queue::{DropTail, StrictPriority, Tally};
use rc3_units::{Level, Rate};

use crate::{Impairments, LevelStats, Link, LinkConfig, LinkStats, Packet, Trace};

const MBIT: u64 = 1_000_000;

fn config(megabits: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        rate: Rate::from_bits_per_second(megabits * MBIT),
        delay: Duration::from_millis(delay_ms),
        ..LinkConfig::default()
    }
}

fn packet(level: u8, size: usize, payload: u32) -> Packet<u32> {
    Packet { size, level: Level::new(level).unwrap(), payload }
}

fn micros(start: Instant, at: Instant) -> u128 {
    at.duration_since(start).as_micros()
}

/// Drains the link, polling exactly when it asks to be polled.
fn arrivals(link: &mut Link<u32>, start: Instant) -> Vec<(u128, u32)> {
    let mut arrivals = vec![];
    while let Some(at) = link.poll_timeout() {
        while let Some(payload) = link.poll_output(at) {
            arrivals.push((micros(start, at), payload));
        }
    }
    arrivals
}

#[test]
fn a_packet_takes_transmission_time_plus_delay() {
    let start = Instant::now();
    let mut link = Link::new(config(12, 20), DropTail::new(10_000));
    link.send(start, packet(0, 1500, 1));
    link.send(start, packet(0, 1500, 2));
    assert_eq!(link.poll_output(start + Duration::from_micros(20_999)), None);
    assert_eq!(arrivals(&mut link, start), [(21_000, 1), (22_000, 2)]);
    link.send(start + Duration::from_millis(30), packet(0, 750, 3));
    assert_eq!(arrivals(&mut link, start), [(50_500, 3)]);
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn a_trace_says_when_packets_leave() {
    let start = Instant::now();
    let trace = Trace::new(vec![1, 4, 4, 10]).unwrap();
    let mut link = Link::new(LinkConfig { trace: Some(trace), ..config(1, 20) }, DropTail::new(4500));
    for payload in 0..6 {
        link.send(start, packet(0, 1500, payload));
    }
    // One in service, three wait, and two find no room.
    assert_eq!(link.stats().total().dropped.packets, 2);
    assert_eq!(arrivals(&mut link, start), [(21_000, 0), (24_000, 1), (24_000, 2), (30_000, 3)]);
    // In the fourth round, of which a small packet uses a part.
    link.send(start + Duration::from_millis(32), packet(0, 100, 6));
    assert_eq!(arrivals(&mut link, start), [(54_000, 6)]);
}

#[test]
fn an_overhead_delays_each_packet_by_some_of_it() {
    let start = Instant::now();
    let overhead = Duration::from_millis(1);
    let mut link = Link::new(LinkConfig { overhead, ..config(12, 0) }, DropTail::new(u64::MAX));
    for payload in 0..1000 {
        link.send(start, packet(0, 1500, payload));
    }
    let arrivals = arrivals(&mut link, start);
    assert!(arrivals.iter().is_sorted_by_key(|(_, payload)| *payload));
    let gaps: Vec<_> = arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // To the microsecond.
    assert!(gaps.iter().all(|gap| (999..=2001).contains(gap)));
    assert!(gaps.iter().filter(|gap| **gap < 1250).count() > 200);
    let last = arrivals.last().unwrap().0;
    assert!((1_450_000..1_550_000).contains(&last), "{last}");
}

#[test]
fn an_infinitely_fast_link_only_delays() {
    let start = Instant::now();
    let config = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
    let mut link = Link::new(config, DropTail::new(1500));
    for payload in 0..100 {
        link.send(start, packet(0, 1500, payload));
    }
    assert_eq!(arrivals(&mut link, start), (0..100).map(|n| (5000, n)).collect::<Vec<_>>());
    assert_eq!(link.stats().total().dropped.packets, 0);
}

#[test]
fn rounding_does_not_add_up_over_a_busy_period() {
    let start = Instant::now();
    let rate = Rate::from_bits_per_second(7 * MBIT).unwrap();
    let mut link =
        Link::new(LinkConfig { rate: Some(rate), ..LinkConfig::default() }, DropTail::new(u64::MAX));
    for payload in 0..70_000 {
        link.send(start, packet(0, 1, payload));
    }
    assert_eq!(arrivals(&mut link, start).last(), Some(&(80_000, 69_999)));
}

#[test]
fn late_polling_does_not_change_departures() {
    let start = Instant::now();
    let mut late = Link::new(config(12, 0), StrictPriority::by_level(6000));
    let mut prompt = Link::new(config(12, 0), StrictPriority::by_level(6000));
    let mut prompt_order = vec![];
    for payload in 0..40 {
        let now = start + Duration::from_micros(u64::from(payload) * 700);
        let packet = packet((payload % 3) as u8, 1500, payload);
        late.send(now, packet.clone());
        prompt.send(now, packet);
        prompt_order.extend(std::iter::from_fn(|| prompt.poll_output(now)));
    }
    let end = start + Duration::from_secs(1);
    prompt_order.extend(std::iter::from_fn(|| prompt.poll_output(end)));
    let late_order: Vec<_> = std::iter::from_fn(|| late.poll_output(end)).collect();
    assert_eq!(late_order, prompt_order);
    assert_eq!(late.stats(), prompt.stats());
    assert!(late.stats().total().dropped.packets > 5);
}

#[test]
fn a_backlog_is_served_back_to_back_when_polled_only_now_and_then() {
    let start = Instant::now();
    let mut link = Link::new(config(12, 0), DropTail::new(u64::MAX));
    for payload in 0..1000 {
        link.send(start, packet(0, 1500, payload));
    }
    for seconds_tenths in 1..=10_u64 {
        let now = start + Duration::from_millis(100 * seconds_tenths);
        assert_eq!(std::iter::from_fn(|| link.poll_output(now)).count(), 100);
    }
}

#[test]
fn an_arrival_meets_the_queue_of_its_own_instant() {
    let start = Instant::now();
    let mut link = Link::new(config(12, 0), DropTail::new(1500));
    link.send(start, packet(0, 1500, 1));
    link.send(start, packet(0, 1500, 2));
    link.send(start + Duration::from_micros(999), packet(0, 1500, 3));
    link.send(start + Duration::from_micros(1000), packet(0, 1500, 4));
    assert_eq!(arrivals(&mut link, start), [(1000, 1), (2000, 2), (3000, 4)]);
    assert_eq!(link.stats().total().dropped, Tally { packets: 1, bytes: 1500 });
}

#[test]
fn normal_priority_waits_for_one_packet_in_service_at_most() {
    let start = Instant::now();
    let mut link = Link::new(config(12, 0), StrictPriority::by_level(30_000));
    let mut sent = 0;
    for tick in 0..1000_u64 {
        let now = start + Duration::from_micros(tick * 250);
        link.send(now, packet((tick % 15 + 1) as u8, 1500, 0));
        if tick % 10 == 7 {
            link.send(now, packet(0, 1500, 1));
            sent += 1;
        }
    }
    while link.poll_output(start + Duration::from_secs(10)).is_some() {}
    let normal = link.stats().level(Level::PRIMARY);
    assert_eq!(normal.delivered.packets, sent);
    assert_eq!(normal.dropped.packets, 0);
    assert!(normal.queueing_delay_max > Duration::ZERO);
    assert!(normal.queueing_delay_max < Duration::from_millis(1), "{:?}", normal.queueing_delay_max);
    assert!(link.stats().level(Level::MAX).dropped.packets > 0);
}

#[test]
fn packets_that_aggregate_arrive_together() {
    let start = Instant::now();
    let aggregation = Duration::from_millis(4);
    let mut link = Link::new(LinkConfig { aggregation, ..config(12, 0) }, DropTail::new(u64::MAX));
    for payload in 0..9 {
        link.send(start, packet(0, 1500, payload));
    }
    let at = [4000, 4000, 4000, 4000, 8000, 8000, 8000, 8000, 12_000];
    assert_eq!(arrivals(&mut link, start), at.into_iter().zip(0..9).collect::<Vec<_>>());
}

#[test]
fn a_changed_rate_holds_from_the_next_packet_on() {
    let start = Instant::now();
    let mut link = Link::new(config(12, 0), DropTail::new(u64::MAX));
    for payload in 0..4 {
        link.send(start, packet(0, 1500, payload));
    }
    link.set_rate(start + Duration::from_micros(1500), Rate::from_bits_per_second(6 * MBIT));
    assert_eq!(arrivals(&mut link, start), [(1000, 0), (2000, 1), (4000, 2), (6000, 3)]);
}

#[test]
fn a_packet_in_service_is_not_pre_empted() {
    let start = Instant::now();
    let mut link = Link::new(config(12, 0), StrictPriority::by_level(1500));
    link.send(start, packet(15, 1500, 1));
    link.send(start, packet(0, 1500, 2));
    assert_eq!(arrivals(&mut link, start), [(1000, 1), (2000, 2)]);
}

#[test]
fn a_held_back_packet_is_overtaken() {
    let start = Instant::now();
    let impairments =
        Impairments { reorder: 0.2, reorder_delay: Duration::from_millis(3), ..Default::default() };
    let mut link = Link::new(LinkConfig { impairments, ..config(12, 0) }, DropTail::new(u64::MAX));
    for payload in 0..100 {
        link.send(start, packet(0, 1500, payload));
    }
    let arrivals = arrivals(&mut link, start);
    let late = arrivals.iter().filter(|(at, payload)| *at == u128::from(payload + 1) * 1000 + 3000).count();
    let punctual = arrivals.iter().filter(|(at, payload)| *at == u128::from(payload + 1) * 1000).count();
    assert_eq!(late + punctual, 100);
    assert!((8..=32).contains(&late), "{late} of 100 held back at 20 %");
    assert!(!arrivals.is_sorted_by_key(|(_, payload)| *payload));
    assert!(arrivals.is_sorted_by_key(|(at, _)| *at));
}

#[derive(Debug, Clone)]
struct Step {
    gap_us: u64,
    level: u8,
    size: usize,
    polls: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..1500_u64, 0..16_u8, 40..1500_usize, any::<bool>());
    let step = step.prop_map(|(gap_us, level, size, polls)| Step { gap_us, level, size, polls });
    prop::collection::vec(step, 0..150)
}

/// Runs the steps over an impaired link; polls at steps that say so, or only at the end.
fn run(steps: &[Step], polls: bool, start: Instant, seed: u64) -> (Vec<u32>, LinkStats) {
    let mut jitter = [Duration::ZERO; Level::COUNT];
    jitter[2] = Duration::from_millis(4);
    let impairments = Impairments {
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        reorder_delay: Duration::from_millis(2),
        jitter,
        ..Default::default()
    };
    let mut link =
        Link::new(LinkConfig { impairments, seed, ..config(10, 7) }, StrictPriority::by_level(5000));
    let mut output = vec![];
    let mut now = start;
    for (serial, step) in steps.iter().enumerate() {
        now += Duration::from_micros(step.gap_us);
        link.send(now, packet(step.level, step.size, serial as u32));
        if polls && step.polls {
            output.extend(std::iter::from_fn(|| link.poll_output(now)));
        }
    }
    output.extend(std::iter::from_fn(|| link.poll_output(now + Duration::from_secs(60))));
    assert_eq!(link.poll_timeout(), None);
    (output, link.stats().clone())
}

proptest! {
    #[test]
    fn runs_replay_and_do_not_depend_on_polling(steps in steps(), seed: u64) {
        let start = Instant::now();
        let reference = run(&steps, true, start, seed);
        prop_assert_eq!(&run(&steps, true, start, seed), &reference);
        prop_assert_eq!(&run(&steps, false, start, seed), &reference);
    }

    #[test]
    fn every_packet_is_accounted_for(steps in steps(), seed: u64) {
        let (output, stats) = run(&steps, true, Instant::now(), seed);
        let total = stats.total();
        prop_assert_eq!(total.offered.packets, steps.len() as u64);
        prop_assert_eq!(total.delivered.packets, output.len() as u64);
        for level in (0..16).filter_map(Level::new) {
            let LevelStats { offered, dropped, lost, duplicated, delivered, .. } = *stats.level(level);
            prop_assert_eq!(
                offered.bytes + duplicated.bytes,
                dropped.bytes + lost.bytes + delivered.bytes
            );
        }
    }

    #[test]
    fn nothing_arrives_before_the_timeout(steps in steps()) {
        let start = Instant::now();
        let mut link = Link::new(
            LinkConfig { impairments: Impairments::loss(0.3), ..config(10, 1) },
            StrictPriority::by_level(5000),
        );
        let mut now = start;
        for (serial, step) in steps.iter().enumerate() {
            now += Duration::from_micros(step.gap_us);
            while let Some(at) = link.poll_timeout().filter(|at| *at <= now) {
                prop_assert_eq!(link.poll_output(at - Duration::from_nanos(1)), None);
                while link.poll_output(at).is_some() {}
                prop_assert!(link.poll_timeout().is_none_or(|next| next > at));
            }
            link.send(now, packet(step.level, step.size, serial as u32));
        }
    }
}
