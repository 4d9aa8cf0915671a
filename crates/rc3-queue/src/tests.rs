//! Tests of all disciplines, with packets of a simulator.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::*;

/// A packet of a simulator: its number, and the properties that queues need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Item {
    number: u32,
    bytes: u64,
    class: u8,
    flow: u64,
    ect: bool,
    marked: bool,
}

fn item(number: u32, bytes: u64) -> Item {
    Item { number, bytes, class: 0, flow: 0, ect: false, marked: false }
}

impl Queued for Item {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn class(&self) -> u8 {
        self.class
    }
}

impl Routed for Item {
    fn flow_hash(&self, _key: u64) -> u64 {
        self.flow
    }

    fn mark_congestion(&mut self) -> bool {
        self.marked |= self.ect;
        self.ect
    }
}

/// Adds items and returns the dropped ones.
fn fill(queue: &mut impl Queue<Item>, now: Instant, items: impl IntoIterator<Item = Item>) -> Vec<u32> {
    let mut dropped = Vec::new();
    for item in items {
        queue.enqueue(now, item, &mut |item: Item| dropped.push(item.number));
    }
    dropped
}

fn next(queue: &mut impl Queue<Item>, now: Instant) -> Option<u32> {
    queue.dequeue(now, &mut |item| panic!("dropped {item:?}")).map(|item| item.number)
}

fn drain(queue: &mut impl Queue<Item>, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| next(queue, now)).collect()
}

#[test]
fn what_does_not_fit_into_drop_tail_is_dropped_on_arrival() {
    let now = Instant::now();
    let mut queue = DropTail::new(3000);
    let items = [item(1, 1500), item(2, 1501), item(3, 1500), item(4, 1)];
    assert_eq!(fill(&mut queue, now, items), [2, 4]);
    assert_eq!(queue.waiting(), Tally { packets: 2, bytes: 3000 });
    assert_eq!(drain(&mut queue, now), [1, 3]);
    assert!(queue.is_empty());
}

fn at(number: u32, level: u8) -> Item {
    Item { class: level, ..item(number, 1000) }
}

#[test]
fn better_levels_leave_first_and_each_level_in_order() {
    let now = Instant::now();
    let mut queue = StrictPriority::by_level(9000);
    assert!(fill(&mut queue, now, [at(1, 3), at(2, 0), at(3, 15), at(4, 0), at(5, 3)]).is_empty());
    assert_eq!(queue.best_bytes(), 2000);
    assert_eq!(drain(&mut queue, now), [2, 4, 1, 5, 3]);
}

#[test]
fn the_worst_level_pays_from_its_tail() {
    let now = Instant::now();
    let mut queue = StrictPriority::by_level(4000);
    assert!(fill(&mut queue, now, [at(1, 1), at(2, 2), at(3, 2), at(4, 1)]).is_empty());
    assert_eq!(fill(&mut queue, now, [at(5, 2)]), [5], "an equal is not pushed out");
    assert_eq!(fill(&mut queue, now, [Item { bytes: 2500, ..at(6, 0) }]), [3, 2, 4]);
    assert_eq!(
        fill(&mut queue, now, [Item { bytes: 1501, ..at(7, 0) }]),
        [7],
        "and nothing is dropped in vain"
    );
    assert_eq!(drain(&mut queue, now), [6, 1]);
}

#[test]
fn lower_effort_is_worst_by_default_and_the_ladder_has_its_levels() {
    assert_eq!((0..64).filter(|&dscp| Levels::default().of(dscp) != 0).collect::<Vec<_>>(), [1]);
    let numbers = Levels::by_number();
    assert!((0..64).all(|class| numbers.of(class) == if class < 16 { class } else { 0 }));
    let ladder = Levels::ladder();
    assert_eq!([0, 1, 3, 7, 46, 59, 63].map(|dscp| ladder.of(dscp)), [0, 15, 1, 2, 0, 15, 0]);
}

fn of_flow(number: u32, flow: u64) -> Item {
    Item { flow, ..item(number, 1500) }
}

fn fq_codel(limit: u64) -> FqCodel<Item> {
    FqCodel::new(FqCodelConfig { limit, ..FqCodelConfig::default() })
}

#[test]
fn flows_take_turns_and_a_new_one_goes_first() {
    let now = Instant::now();
    let mut queue = fq_codel(1 << 20);
    fill(&mut queue, now, (0..6).map(|number| of_flow(number, 1)));
    fill(&mut queue, now, (10..16).map(|number| of_flow(number, 2)));
    // A quantum is a little more than a packet, so each flow has two in its first turn.
    let first: Vec<u32> = (0..6).filter_map(|_| next(&mut queue, now)).collect();
    assert_eq!(first, [0, 1, 10, 11, 2, 12]);
    fill(&mut queue, now, [of_flow(20, 3)]);
    assert_eq!(next(&mut queue, now), Some(20));
    let rest = drain(&mut queue, now);
    assert_eq!(rest, [3, 13, 4, 14, 5, 15]);
}

#[test]
fn the_fattest_flow_pays_from_its_head() {
    let now = Instant::now();
    let mut queue = fq_codel(15_000);
    fill(&mut queue, now, [of_flow(100, 2)]);
    assert!(fill(&mut queue, now, (0..9).map(|number| of_flow(number, 1))).is_empty());
    assert_eq!(fill(&mut queue, now, [of_flow(101, 2)]), [0, 1, 2, 3, 4]);
    let left = drain(&mut queue, now);
    assert_eq!(left, [100, 101, 5, 6, 7, 8]);
}

#[test]
fn an_item_beyond_the_limit_does_not_stay() {
    let now = Instant::now();
    let mut queue = fq_codel(1000);
    assert_eq!(fill(&mut queue, now, [item(1, 1001)]), [1]);
    assert_eq!((queue.waiting(), next(&mut queue, now)), (Tally::default(), None));
}

/// A queue with one arrival per millisecond and one departure per two milliseconds, for five seconds: numbers dropped,
/// and the longest delay in the last second.
fn overload(queue: &mut FqCodel<Item>, ect: bool) -> (usize, Duration) {
    let start = Instant::now();
    let millis = Duration::from_millis;
    let mut dropped = 0;
    let mut longest = Duration::ZERO;
    for milli in 0..5000 {
        let now = start + millis(milli);
        queue.enqueue(now, Item { ect, ..item(milli as u32, 1500) }, &mut |_| dropped += 1);
        if milli % 2 == 0
            && let Some(item) = queue.dequeue(now, &mut |_| dropped += 1)
            && milli >= 4000
        {
            longest = longest.max(millis(milli - u64::from(item.number)));
        }
    }
    (dropped, longest)
}

#[test]
fn codel_drops_ever_faster_while_a_queue_stands() {
    let mut queue = fq_codel(u64::MAX);
    let (dropped, _) = overload(&mut queue, false);
    // The square root law: sum of 100 ms / sqrt(n) until 4.9 s have passed gives n = (4.9 / 0.2)^2.
    assert!((500..700).contains(&dropped), "{dropped}");
    assert_eq!(queue.marked(), 0);
}

#[test]
fn packets_of_ends_that_know_ecn_are_marked_and_not_dropped() {
    let mut queue = fq_codel(u64::MAX);
    let (dropped, _) = overload(&mut queue, true);
    assert_eq!(dropped, 0);
    assert!(queue.marked() > 100, "{}", queue.marked());

    let mut queue = FqCodel::new(FqCodelConfig { ecn: false, limit: u64::MAX, ..FqCodelConfig::default() });
    let (dropped, _) = overload(&mut queue, true);
    assert!(dropped > 500 && queue.marked() == 0);
}

#[test]
fn a_burst_that_is_gone_within_an_interval_is_let_through() {
    let start = Instant::now();
    let mut queue = fq_codel(u64::MAX);
    fill(&mut queue, start, (0..90).map(|number| item(number, 1500)));
    let out: Vec<u32> =
        (0..90).filter_map(|milli| next(&mut queue, start + Duration::from_millis(milli))).collect();
    assert_eq!(out, (0..90).collect::<Vec<_>>());
}

#[test]
fn a_flow_without_a_queue_is_not_touched_by_one_that_has_one() {
    let start = Instant::now();
    let mut queue = fq_codel(u64::MAX);
    for milli in 0..3000 {
        let now = start + Duration::from_millis(milli);
        fill(&mut queue, now, [of_flow(0, 1); 3]);
        if milli % 10 == 5 {
            fill(&mut queue, now, [Item { bytes: 200, ..of_flow(1, 2) }]);
        }
        let mut dequeue = || queue.dequeue(now, &mut |item| assert_eq!(item.number, 0)).unwrap().number;
        let out = [dequeue(), dequeue()];
        assert_eq!(out.contains(&1), milli % 10 == 5, "behind one packet at most");
    }
    assert!(queue.waiting().packets > 2000);
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue(Item),
    Dequeue,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let item = (1..4000_u64, 0..64_u8, 0..5_u64, any::<bool>()).prop_map(|(bytes, class, flow, ect)| {
        Step::Enqueue(Item { number: 0, bytes, class, flow, ect, marked: false })
    });
    let step = prop_oneof![3 => item, 2 => Just(Step::Dequeue), 1 => (0..200_u64).prop_map(Step::Wait)];
    prop::collection::vec(step, 0..300)
}

fn disciplines(limit: u64) -> Vec<Box<dyn Queue<Item>>> {
    let fq = FqCodelConfig { limit, flows: 3, quantum: 300, ..FqCodelConfig::default() };
    vec![
        Box::new(DropTail::new(limit)),
        Box::new(StrictPriority::by_level(limit)),
        Box::new(FqCodel::new(fq)),
    ]
}

/// Strict priority in its plainest form: one list in order of arrival, searched each time.
#[derive(Default)]
struct Model(Vec<Item>);

impl Model {
    const LIMIT: u64 = 20_000;

    fn bytes(&self) -> u64 {
        self.0.iter().map(|item| item.bytes).sum()
    }

    fn enqueue(&mut self, arrival: Item) -> Vec<Item> {
        let kept: u64 = self.0.iter().filter(|item| item.class <= arrival.class).map(|item| item.bytes).sum();
        if kept + arrival.bytes > Self::LIMIT {
            return vec![arrival];
        }
        let mut dropped = vec![];
        while self.bytes() + arrival.bytes > Self::LIMIT {
            let worst = self.0.iter().map(|item| item.class).max().unwrap();
            let tail = self.0.iter().rposition(|item| item.class == worst).unwrap();
            dropped.push(self.0.remove(tail));
        }
        self.0.push(arrival);
        dropped
    }

    fn dequeue(&mut self) -> Option<Item> {
        let best = self.0.iter().map(|item| item.class).min()?;
        let head = self.0.iter().position(|item| item.class == best)?;
        Some(self.0.remove(head))
    }
}

proptest! {
    #[test]
    fn priority_agrees_with_a_searched_list(steps in steps()) {
        let now = Instant::now();
        let mut queue = StrictPriority::by_level(Model::LIMIT);
        let mut model = Model::default();
        for (step, number) in steps.into_iter().zip(0..) {
            match step {
                Step::Enqueue(item) => {
                    let item = Item { number, class: item.class % 16, ..item };
                    let mut dropped = Vec::new();
                    queue.enqueue(now, item, &mut |item| dropped.push(item));
                    prop_assert_eq!(dropped, model.enqueue(item));
                }
                Step::Dequeue => {
                    prop_assert_eq!(queue.dequeue(now, &mut |_| unreachable!("on arrival only")), model.dequeue());
                }
                Step::Wait(_) => {}
            }
            let expected = Tally { packets: model.0.len() as u64, bytes: model.bytes() };
            prop_assert_eq!(queue.waiting(), expected);
            prop_assert_eq!(queue.is_empty(), model.0.is_empty());
        }
    }

    #[test]
    fn each_item_leaves_or_is_dropped_once_and_flows_keep_their_order(steps in steps(), limit in 0..20_000_u64) {
        for mut queue in disciplines(limit) {
            let mut now = Instant::now();
            let mut inside = std::collections::BTreeMap::new();
            let mut number = 0;
            for step in &steps {
                let mut dropped = Vec::new();
                let mut out = None;
                match *step {
                    Step::Enqueue(item) => {
                        number += 1;
                        let item = Item { number, ..item };
                        inside.insert(number, item);
                        queue.enqueue(now, item, &mut |item| dropped.push(item));
                    }
                    Step::Dequeue => out = queue.dequeue(now, &mut |item| dropped.push(item)),
                    Step::Wait(millis) => now += Duration::from_millis(millis),
                }
                if let Some(out) = out {
                    let earlier = inside.values().find(|item| item.flow == out.flow && item.class == out.class);
                    prop_assert!(dropped.iter().chain([&out]).any(|item| Some(item.number) == earlier.map(|item| item.number)));
                }
                for item in dropped.into_iter().chain(out) {
                    prop_assert!(inside.remove(&item.number).is_some(), "{item:?} a second time");
                }
                prop_assert_eq!(queue.bytes(), inside.values().map(|item| item.bytes).sum::<u64>());
                prop_assert_eq!(queue.waiting().packets, inside.len() as u64);
                prop_assert!(queue.bytes() <= queue.limit());
            }
            now += Duration::from_millis(1);
            while let Some(out) = queue.dequeue(now, &mut |item| { inside.remove(&item.number); }) {
                inside.remove(&out.number);
            }
            prop_assert!(inside.is_empty() && queue.is_empty());
        }
    }

    #[test]
    fn priority_over_one_level_is_drop_tail(steps in steps(), limit in 0..20_000_u64) {
        let now = Instant::now();
        let mut queues = disciplines(limit);
        queues.truncate(2);
        for step in steps {
            let seen: Vec<_> = queues.iter_mut().map(|queue| {
                let mut dropped = Vec::new();
                let out = match step {
                    Step::Enqueue(item) => {
                        queue.enqueue(now, Item { class: 4, ..item }, &mut |item| dropped.push(item));
                        None
                    }
                    Step::Dequeue => queue.dequeue(now, &mut |item| dropped.push(item)),
                    Step::Wait(_) => None,
                };
                (dropped, out)
            }).collect();
            prop_assert_eq!(&seen[0], &seen[1]);
        }
    }
}
