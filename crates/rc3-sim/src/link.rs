//! One direction of a link: a queue, a transmitter of a fixed rate, a propagation delay, impairments.
//!
//! A packet waits in the queue, occupies the transmitter for its size at the rate, is perhaps lost or doubled
//! there, and arrives one propagation delay after its last bit has left.
//!
//! Invariants. *Exact service*: a packet starts service the instant its predecessor has finished, or on arrival
//! at an idle link, however late the caller polls; [`Link::send`] first brings the transmitter up to `now`, so
//! the queue an arrival meets is that of its own instant. *No drift*: ends of service are computed from the start
//! of the busy period, so rounding to the nanosecond never adds up. *No pre-emption*: a packet in service has
//! left the queue and cannot be pushed out. *Order*: equal instants resolve as end of service before arrival, and
//! arrivals of the same instant in the order in which they left the transmitter.
//!
//! Units: sizes are bytes on the wire; times are the caller's [`Instant`]s and never run backwards (an earlier one
//! counts as the latest seen).

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
    fmt,
    time::{Duration, Instant},
};

use rc3_core::units::{Level, Rate};

use crate::{
    impair::{Fate, Impairer, Impairments},
    queue::{Dropped, Packet, Queue},
    random::{Random, derive},
};

/// The law of one direction of a link, but for its queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkConfig {
    /// Rate of the transmitter; `None` is infinitely fast, so nothing ever waits.
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Each packet occupies the transmitter for longer than its size at the rate, by a random time up to this.
    pub overhead: Duration,
    /// Packets reach the far end together, at multiples of this time counted from the first: aggregation, or a receiver
    /// that is woken only so often. Zero: each at its own time.
    pub aggregation: Duration,
    /// What happens to packets after the queue.
    pub impairments: Impairments,
    /// Seed of everything random about the link.
    pub seed: u64,
}

/// One direction of a link that carries packets with payload `T`.
///
/// After each [`Self::send`], and when [`Self::poll_timeout`] has come, drain [`Self::poll_output`] until it
/// returns `None`. How late that happens changes nothing about what arrives when.
pub struct Link<T> {
    config: LinkConfig,
    queue: Box<dyn Queue<Stamped<T>> + Send>,
    impairer: Impairer,
    /// What overheads are drawn from.
    random: Random,
    /// `None` while the transmitter is idle; then the queue is empty.
    busy: Option<BusyPeriod>,
    propagating: Propagating<T>,
    /// Serial number of the next arrival.
    arrivals: u64,
    /// The first instant the caller has named, and the latest.
    first: Option<Instant>,
    latest: Option<Instant>,
    stats: LinkStats,
}

impl<T: Clone> Link<T> {
    /// An idle link with this queue in front of it.
    ///
    /// # Panics
    /// If a probability of the impairments is not within 0 to 1.
    pub fn new(config: LinkConfig, queue: impl Queue<Stamped<T>> + Send + 'static) -> Self {
        Self {
            impairer: Impairer::new(config.impairments.clone(), config.seed),
            random: Random::new(derive(config.seed, 0)),
            config,
            queue: Box::new(queue),
            busy: None,
            propagating: Propagating::default(),
            arrivals: 0,
            first: None,
            latest: None,
            stats: LinkStats::default(),
        }
    }

    /// Hands a packet to the link at `now`.
    pub fn send(&mut self, now: Instant, packet: Packet<T>) {
        let now = self.advance(now);
        let Packet { size, level, payload } = packet;
        self.stats.at(level).offered.add(size);
        let stamped = Packet { size, level, payload: Stamped { sent: now, payload } };
        match self.queue.enqueue(now, stamped) {
            Dropped::Nothing => {}
            dropped => {
                for packet in dropped {
                    self.stats.at(packet.level).dropped.add(packet.size);
                }
            }
        }
        if self.busy.is_none() {
            self.start_busy_period(now);
        }
    }

    /// Changes the rate of the transmitter from `now` on. A packet in service leaves at the old one.
    pub fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        self.advance(now);
        self.config.rate = rate;
        if let Some(busy) = &mut self.busy {
            *busy = BusyPeriod { since: busy.until, bytes: 0, until: busy.until };
        }
    }

    /// The payload that arrived first among those that have arrived by `now`, taken off the link.
    pub fn poll_output(&mut self, now: Instant) -> Option<T> {
        Some(self.poll_packet(now)?.payload)
    }

    /// The same with the packet's size and level, for who sends it on.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Packet<T>> {
        let now = self.advance(now);
        if self.propagating.first()? > now {
            return None;
        }
        let Arrival { level, size, payload, .. } = self.propagating.pop()?;
        self.stats.at(level).delivered.add(size);
        Some(Packet { size, level, payload })
    }

    /// No payload arrives before this instant. `None`: the link is empty.
    ///
    /// At that instant there may still be nothing to take when packets are lost or held back; ask again then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let propagating = self.propagating.first();
        let waiting = match &self.busy {
            Some(busy) if !self.queue.is_empty() => Some(busy.until + self.config.delay),
            _ => None,
        };
        match (propagating, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When the packet in service will have left, as of the latest instant named to the link; then the queue is shorter.
    /// `None`: the transmitter is idle.
    pub fn service_end(&self) -> Option<Instant> {
        self.busy.map(|busy| busy.until)
    }

    /// What happened so far, as of the latest instant named to the link.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Bytes that wait in the queue at `now`, without the packet in service.
    pub fn queue_bytes(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.queue.bytes()
    }

    /// Runs the transmitter up to `now`, or to the latest instant seen if that is later, which it returns.
    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        self.first.get_or_insert(now);
        while let Some(busy) = self.busy {
            if busy.until > now {
                break;
            }
            match self.dequeue(busy.until) {
                Some(packet) => self.serve(busy, packet),
                None => self.busy = None,
            }
        }
        now
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<Stamped<T>>> {
        let next = self.queue.dequeue(now);
        while let Some(packet) = self.queue.poll_dropped() {
            self.stats.at(packet.level).dropped.add(packet.size);
        }
        next
    }

    fn start_busy_period(&mut self, now: Instant) {
        if let Some(packet) = self.dequeue(now) {
            self.serve(BusyPeriod { since: now, bytes: 0, until: now }, packet);
            self.advance(now);
        }
    }

    /// Starts the service of `packet` at `busy.until` and settles its fate.
    fn serve(&mut self, mut busy: BusyPeriod, packet: Packet<Stamped<T>>) {
        let Packet { size, level, payload: Stamped { sent, payload } } = packet;
        let stats = self.stats.at(level);
        stats.queueing_delay_max = stats.queueing_delay_max.max(busy.until.duration_since(sent));
        busy.transmit(size, self.config.rate);
        if !self.config.overhead.is_zero() {
            busy.linger(self.config.overhead.mul_f64(self.random.unit()));
        }
        self.busy = Some(busy);
        let base = busy.until + self.config.delay;
        match self.impairer.fate(level) {
            Fate::Lost => self.stats.at(level).lost.add(size),
            Fate::Arrives(extra) => self.propagate(base + extra, level, size, payload),
            Fate::Twice(extra, extra_of_copy) => {
                self.stats.at(level).duplicated.add(size);
                self.propagate(base + extra, level, size, payload.clone());
                self.propagate(base + extra_of_copy, level, size, payload);
            }
        }
    }

    /// When what is ready at `at` reaches the far end.
    fn together(&self, at: Instant) -> Instant {
        let every = self.config.aggregation.as_nanos();
        match self.first {
            Some(first) if every > 0 => {
                let times = at.saturating_duration_since(first).as_nanos().div_ceil(every);
                first + Duration::from_nanos(u64::try_from(times * every).unwrap_or(u64::MAX))
            }
            _ => at,
        }
    }

    fn propagate(&mut self, at: Instant, level: Level, size: usize, payload: T) {
        let at = self.together(at);
        let serial = self.arrivals;
        self.arrivals += 1;
        self.propagating.push(Arrival { at, serial, level, size, payload });
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("config", &self.config)
            .field("queue_bytes", &self.queue.bytes())
            .field("propagating", &(self.propagating.in_order.len() + self.propagating.others.len()))
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// A payload with the instant it was handed to the link: what a [`Link`] puts into its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped<T> {
    sent: Instant,
    payload: T,
}

impl<T> Stamped<T> {
    /// A payload that is handed over now.
    pub fn new(sent: Instant, payload: T) -> Self {
        Self { sent, payload }
    }

    /// The payload, for queues that look into it.
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// The payload, for queues that write into it.
    pub fn payload_mut(&mut self) -> &mut T {
        &mut self.payload
    }
}

/// Packets and their bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How many packets.
    pub packets: u64,
    /// Their bytes on the wire, IP and UDP headers included.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, size: usize) {
        self.packets += 1;
        self.bytes += size as u64;
    }

    fn add_all(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// What a link did to the packets of one level.
///
/// Once the link is empty, `offered + duplicated = dropped + lost + delivered` of packets, and of bytes where the queue
/// fragments none: a fragmented packet leaves with one more header than it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelStats {
    /// Handed to the link.
    pub offered: Tally,
    /// Dropped by the queue, on arrival or by push-out.
    pub dropped: Tally,
    /// Lost after the queue.
    pub lost: Tally,
    /// Copies made on the way.
    pub duplicated: Tally,
    /// Taken off the far end, copies included.
    pub delivered: Tally,
    /// Longest time from being handed in to the start of service.
    pub queueing_delay_max: Duration,
}

/// What a link did, level by level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkStats {
    levels: [LevelStats; Level::COUNT],
}

impl LinkStats {
    /// The packets of one level.
    pub fn level(&self, level: Level) -> &LevelStats {
        &self.levels[level.index()]
    }

    /// All levels together.
    pub fn total(&self) -> LevelStats {
        let mut total = LevelStats::default();
        for level in &self.levels {
            total.offered.add_all(level.offered);
            total.dropped.add_all(level.dropped);
            total.lost.add_all(level.lost);
            total.duplicated.add_all(level.duplicated);
            total.delivered.add_all(level.delivered);
            total.queueing_delay_max = total.queueing_delay_max.max(level.queueing_delay_max);
        }
        total
    }

    fn at(&mut self, level: Level) -> &mut LevelStats {
        &mut self.levels[level.index()]
    }
}

/// A time without a pause of the transmitter.
#[derive(Debug, Clone, Copy)]
struct BusyPeriod {
    /// When it began, put off by what packets took beyond the time for their bytes.
    since: Instant,
    /// Bytes sent in it, the packet in service included.
    bytes: u64,
    /// End of the present service: `since` plus the time for `bytes`.
    until: Instant,
}

impl BusyPeriod {
    fn transmit(&mut self, size: usize, rate: Option<Rate>) {
        self.bytes += size as u64;
        self.until = self.since + rate.map_or(Duration::ZERO, |rate| rate.time_for(self.bytes));
    }

    /// Ends so much later.
    fn linger(&mut self, time: Duration) {
        self.since += time;
        self.until += time;
    }
}

/// The packets between the transmitter and the far end. Without jitter each arrives after all before it, so a line
/// serves; the heap is for the others.
struct Propagating<T> {
    in_order: VecDeque<Arrival<T>>,
    others: BinaryHeap<Reverse<Arrival<T>>>,
}

impl<T> Default for Propagating<T> {
    fn default() -> Self {
        Self { in_order: VecDeque::new(), others: BinaryHeap::new() }
    }
}

impl<T> Propagating<T> {
    fn push(&mut self, arrival: Arrival<T>) {
        match self.in_order.back() {
            Some(last) if arrival.at < last.at => self.others.push(Reverse(arrival)),
            _ => self.in_order.push_back(arrival),
        }
    }

    /// When the first arrives.
    fn first(&self) -> Option<Instant> {
        let others = self.others.peek().map(|Reverse(arrival)| arrival.at);
        match (self.in_order.front().map(|arrival| arrival.at), others) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn pop(&mut self) -> Option<Arrival<T>> {
        let other = match (self.in_order.front(), self.others.peek()) {
            (Some(next), Some(Reverse(other))) => other < next,
            (next, _) => next.is_none(),
        };
        if other { self.others.pop().map(|Reverse(arrival)| arrival) } else { self.in_order.pop_front() }
    }
}

/// A packet between the transmitter and the far end.
struct Arrival<T> {
    at: Instant,
    serial: u64,
    level: Level,
    size: usize,
    payload: T,
}

impl<T> Ord for Arrival<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl<T> PartialOrd for Arrival<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Arrival<T> {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

impl<T> Eq for Arrival<T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{DropTail, StrictPriority};

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
        let mut late = Link::new(config(12, 0), StrictPriority::new(6000));
        let mut prompt = Link::new(config(12, 0), StrictPriority::new(6000));
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
        let mut link = Link::new(config(12, 0), StrictPriority::new(30_000));
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
        let mut link = Link::new(config(12, 0), StrictPriority::new(1500));
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
        let late =
            arrivals.iter().filter(|(at, payload)| *at == u128::from(payload + 1) * 1000 + 3000).count();
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

    /// Runs the steps over an impaired link; polls where a step says so, or nowhere before the end.
    fn run(steps: &[Step], polls: bool, start: Instant, seed: u64) -> (Vec<u32>, LinkStats) {
        let mut jitter = [Duration::ZERO; Level::COUNT];
        jitter[2] = Duration::from_millis(4);
        let impairments = Impairments {
            loss: 0.1,
            duplicate: 0.1,
            reorder: 0.1,
            reorder_delay: Duration::from_millis(2),
            jitter,
        };
        let mut link =
            Link::new(LinkConfig { impairments, seed, ..config(10, 7) }, StrictPriority::new(5000));
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
                StrictPriority::new(5000),
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
}
