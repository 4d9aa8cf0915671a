//! One direction of a link: a queue, a transmitter of a fixed rate, a propagation delay, impairments.
//!
//! A packet waits in the queue, occupies the transmitter for its size at the rate, may be lost or duplicated there, and
//! arrives one propagation delay after its last bit has left.
//!
//! Invariants. *Exact service*: a packet starts service the instant its predecessor finishes, or on arrival at an idle
//! link, however late the caller polls; [`Link::send`] first runs the transmitter up to `now`, so an arrival meets the
//! queue of its own instant. *No drift*: ends of service are computed from the start of the busy period, so rounding to
//! the nanosecond never adds up. *No pre-emption*: a packet in service has left the queue and cannot be pushed out.
//! *Order*: at equal instants, an end of service precedes an arrival, and arrivals keep the order in which they left
//! the transmitter.
//!
//! Units: sizes are bytes on the wire; times are the caller's [`Instant`]s and never run backwards (an earlier one
//! counts as the latest seen).

use std::{
    fmt,
    time::{Duration, Instant},
};

use rc3_queue::Queue;
use rc3_units::Rate;

use crate::{
    LinkStats, Packet, Stamped, Waiting,
    impair::{Fate, Impairer, Impairments},
    propagating::Propagating,
    random::{Random, derive},
    service::BusyPeriod,
    trace::{Cursor, Trace},
};

/// Parameters of one link direction, except its queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkConfig {
    /// Rate of the transmitter; `None` is infinitely fast, so no packet ever waits.
    pub rate: Option<Rate>,
    /// Times at which the transmitter may deliver, counted from the first instant the caller names; the rate counts for
    /// nothing then.
    pub trace: Option<Trace>,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Upper bound of a random time for which each packet occupies the transmitter beyond its size at the rate.
    pub overhead: Duration,
    /// Packets reach the far end together, at multiples of this time counted from the first: aggregation, or a receiver
    /// with coarse wake-ups. Zero: each at its own time.
    pub aggregation: Duration,
    /// Impairments behind the queue.
    pub impairments: Impairments,
    /// Seed of all randomness of the link.
    pub seed: u64,
}

/// One direction of a link that carries packets with payload `T`.
///
/// After each [`Self::send`], and at [`Self::poll_timeout`], call [`Self::poll_output`] until it returns `None`. Late
/// calls do not change arrival times.
pub struct Link<T> {
    config: LinkConfig,
    queue: Box<dyn Queue<Waiting<T>> + Send>,
    impairer: Impairer,
    /// Generator of the random service times.
    random: Random,
    /// `None` while the transmitter is idle; then the queue is empty.
    busy: Option<BusyPeriod>,
    /// How far the trace is used.
    cursor: Cursor,
    propagating: Propagating<T>,
    /// The first instant passed by the caller, and the latest.
    first: Option<Instant>,
    latest: Option<Instant>,
    stats: LinkStats,
}

impl<T: Clone> Link<T> {
    /// An idle link with this queue in front of it.
    ///
    /// # Panics
    /// If a probability of the impairments is not within 0 to 1.
    pub fn new(config: LinkConfig, queue: impl Queue<Waiting<T>> + Send + 'static) -> Self {
        Self::boxed(config, Box::new(queue))
    }

    /// The same with a queue whose discipline was chosen at run time.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn boxed(config: LinkConfig, queue: Box<dyn Queue<Waiting<T>> + Send>) -> Self {
        Self {
            impairer: Impairer::new(config.impairments.clone(), config.seed),
            random: Random::new(derive(config.seed, 0)),
            config,
            queue,
            busy: None,
            cursor: Cursor::default(),
            propagating: Propagating::default(),
            first: None,
            latest: None,
            stats: LinkStats::default(),
        }
    }

    /// Passes a packet to the link at `now`.
    pub fn send(&mut self, now: Instant, packet: Packet<T>) {
        let now = self.advance(now);
        let Packet { size, level, payload } = packet;
        self.stats.at(level).offered.add(size);
        let stamped = Packet { size, level, payload: Stamped { sent: now, payload } };
        let stats = &mut self.stats;
        self.queue.enqueue(now, stamped, &mut |packet| stats.at(packet.level).dropped.add(packet.size));
        if self.busy.is_none() {
            self.start_busy_period(now);
        }
        self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(self.queue.bytes());
    }

    /// Sets the rate of the transmitter from `now` on. A packet in service leaves at the old rate.
    pub fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        self.advance(now);
        self.config.rate = rate;
        if let Some(busy) = &mut self.busy {
            *busy = BusyPeriod { since: busy.until, bytes: 0, until: busy.until };
        }
    }

    /// Removes and returns the first payload that has arrived by `now`.
    pub fn poll_output(&mut self, now: Instant) -> Option<T> {
        Some(self.poll_packet(now)?.payload)
    }

    /// The same with the packet's size and level, for callers that forward it.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Packet<T>> {
        let now = self.advance(now);
        if self.propagating.first()? > now {
            return None;
        }
        let packet = self.propagating.pop()?;
        self.stats.at(packet.level).delivered.add(packet.size);
        Some(packet)
    }

    /// No payload arrives before this instant. `None`: the link is empty.
    ///
    /// At that instant there may still be no payload if packets are lost or delayed; call again then.
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

    /// When the packet in service will have left, as of the latest instant passed to the link; then the queue becomes
    /// shorter. `None`: the transmitter is idle.
    pub fn service_end(&self) -> Option<Instant> {
        self.busy.map(|busy| busy.until)
    }

    /// Statistics so far, as of the latest instant passed to the link.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Bytes in the queue at `now`, without the packet in service.
    pub fn queue_bytes(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.queue.bytes()
    }

    /// Runs the transmitter up to `now`, or to the latest instant seen if that is later; returns that instant.
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

    fn dequeue(&mut self, now: Instant) -> Option<Waiting<T>> {
        let stats = &mut self.stats;
        self.queue.dequeue(now, &mut |packet| stats.at(packet.level).dropped.add(packet.size))
    }

    fn start_busy_period(&mut self, now: Instant) {
        if let Some(packet) = self.dequeue(now) {
            self.serve(BusyPeriod { since: now, bytes: 0, until: now }, packet);
            self.advance(now);
        }
    }

    /// Starts the service of `packet` at `busy.until` and draws its impairments.
    fn serve(&mut self, mut busy: BusyPeriod, packet: Waiting<T>) {
        let Packet { size, level, payload: Stamped { sent, payload } } = packet;
        let stats = self.stats.at(level);
        stats.queueing_delay_max = stats.queueing_delay_max.max(busy.until.duration_since(sent));
        match (&self.config.trace, self.first) {
            (Some(trace), Some(first)) => {
                let from = busy.until.saturating_duration_since(first);
                busy.until = first + self.cursor.take(trace, from, size as u64);
            }
            _ => busy.transmit(size, self.config.rate),
        }
        if !self.config.overhead.is_zero() {
            busy.linger(self.config.overhead.mul_f64(self.random.unit()));
        }
        self.busy = Some(busy);
        let base = busy.until + self.config.delay;
        match self.impairer.fate(level) {
            Fate::Lost => self.stats.at(level).lost.add(size),
            Fate::Arrives(extra) => self.propagate(base + extra, Packet { size, level, payload }),
            Fate::Twice(extra, extra_of_copy) => {
                self.stats.at(level).duplicated.add(size);
                let packet = Packet { size, level, payload };
                self.propagate(base + extra, packet.clone());
                self.propagate(base + extra_of_copy, packet);
            }
        }
    }

    /// When a packet that is ready at `at` reaches the far end.
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

    fn propagate(&mut self, at: Instant, packet: Packet<T>) {
        self.propagating.push(self.together(at), packet);
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("config", &self.config)
            .field("queue_bytes", &self.queue.bytes())
            .field("propagating", &self.propagating.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
