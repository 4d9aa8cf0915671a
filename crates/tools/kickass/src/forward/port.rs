//! A port of a forwarder: queue and link in virtual time, then the delay.

use std::time::{Duration, Instant};

use kickass::{
    law::{Fixed, RateLaw},
    offload::{Segment, SegmentRun},
    queue::Queue,
    rcp,
    router::{self, Router},
    signal::Withheld,
    stats::Tally,
};

use super::{config::PortConfig, line::Line, passing::Passing, queue::PortQueue, statistics::PortTotals};

/// Most missed transmission time that a link may catch up on.
const CATCH_UP: Duration = Duration::from_millis(10);

/// Length of the first interval of a port's law. It differs per port, so that not all laws update at once.
const FIRST_INTERVALS: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(7),
    Duration::from_millis(4),
    Duration::from_millis(13),
];

/// One port.
pub(crate) struct Port {
    config: PortConfig,
    number: usize,
    seed: u64,
    router: Router<PortQueue, Box<dyn RateLaw>, Passing>,
    line: Line,
    /// What happened between the device and the router, and in `dropped` why packets from the device could not be
    /// forwarded or the device refused them.
    pub(crate) counted: PortTotals,
}

/// How long a run may be: by default, there is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunLimits {
    /// Most segments of TCP.
    pub segments: usize,
    /// Most datagrams of UDP: one, if the device does not take runs of them.
    pub datagrams: usize,
}

impl Port {
    pub(crate) fn new(config: PortConfig, number: usize, seed: u64, now: Instant) -> Self {
        let router = Router::new(
            router_config(&config, seed),
            PortQueue::new(&config, seed),
            law(&config, number, now),
            now,
        );
        let counted = PortTotals {
            name: config.name.clone(),
            dropped: ["malformed", "hop_limit", "no_route", "too_big", "device"]
                .map(|reason| (reason, 0))
                .into(),
            ..PortTotals::default()
        };
        Self { config, number, seed, router, line: Line::default(), counted }
    }

    /// Changes to another configuration; queued packets stay, and packets in the delay line keep their arrival times.
    pub(crate) fn change(&mut self, config: PortConfig, now: Instant) {
        self.router.reconfigure(router_config(&config, self.seed));
        let rule = |port: &PortConfig| {
            port.kickass.as_ref().map(|signals| (signals.on, signals.fixed, signals.rcp()))
        };
        if rule(&config) == rule(&self.config) {
            self.router.law_mut().set_capacity(config.rate.bytes_per_second());
        } else {
            *self.router.law_mut() = law(&config, self.number, now);
        }
        if (&config.queue, config.buffer()) != (&self.config.queue, self.config.buffer()) {
            self.router.queue_mut().change(now, &config, self.seed);
        }
        self.config = config;
    }

    /// Counts packets that were not forwarded or that the device refused.
    pub(crate) fn count_dropped(&mut self, reason: &'static str, packets: usize) {
        *self.counted.dropped.entry(reason).or_default() += packets as u64;
    }

    pub(crate) fn mtu(&self) -> u16 {
        self.config.mtu
    }

    /// A packet that entered at port `from` is to leave through this one. Call [`Self::advance`] first.
    pub(crate) fn enqueue(&mut self, now: Instant, from: usize, packet: Segment) {
        self.router.enqueue_packet(now, Passing { since: now, from, packet });
    }

    /// Bytes that wait in the queue or are on their way.
    pub(crate) fn bytes(&self) -> u64 {
        self.router.queue().bytes() + self.line.bytes()
    }

    /// Lets the link transmit up to `now`.
    ///
    /// Each packet leaves at the instant at which the link was free, however late this call is. So neither the pace nor
    /// the delay depends on when the process wakes up. The link waits for packets to be written if the line is full.
    pub(crate) fn advance(&mut self, now: Instant) {
        let late_max = self.config.delay + CATCH_UP;
        let floor = now.checked_sub(late_max);
        while let Some(free) = self.router.poll_timeout().filter(|free| *free <= now) {
            if self.line.is_full(now, late_max) {
                // Else packets that arrive meanwhile would leave before they came.
                self.router.hold(now);
                break;
            }
            let at = floor.map_or(free, |floor| free.max(floor));
            // The discipline may have dropped all queued packets.
            let Some(passing) = self.router.dequeue(at) else { break };
            self.line.push(self.router.link_free(), self.config.delay, passing.packet);
        }
        if self.router.is_empty() {
            // The statistics show its rate.
            self.router.advance(now);
        }
    }

    /// See [`Forwarder::poll_transmit`](super::forwarder::Forwarder::poll_transmit).
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        limits: RunLimits,
        run: &mut SegmentRun,
    ) -> Option<Segment> {
        while run.segments() < if run.is_udp() { limits.datagrams } else { limits.segments }
            && let Some((_, Segment::Part(next))) = self.line.next().filter(|(arrival, _)| *arrival <= now)
        {
            if !run.continues_with(next) {
                return None;
            }
            if let Some(Segment::Part(part)) = self.line.pop(now) {
                run.push(part);
            }
        }
        if run.is_empty() { self.line.pop(now) } else { None }
    }

    /// When the next packet arrives, or may arrive. A packet arrives one delay after it leaves the link, so no wake-up
    /// is needed for its departure.
    ///
    /// A segment waits up to `coalesce` for those of its super-packet that follow, if they can arrive by then.
    pub(crate) fn poll_timeout(&self, coalesce: Duration) -> Option<Instant> {
        let Some((arrival, next)) = self.line.next() else {
            return self.router.poll_timeout().map(|free| free + self.config.delay);
        };
        let Segment::Part(part) = next else { return Some(arrival) };
        let rest = (part.remaining() * part.total_len()) as f64 / self.config.rate.bytes_per_second();
        Some(arrival + Duration::try_from_secs_f64(rest).map_or(coalesce, |rest| rest.min(coalesce)))
    }

    pub(crate) fn totals(&self) -> PortTotals {
        let stats = self.router.stats();
        let queue = self.router.queue();
        PortTotals {
            dropped: self
                .counted
                .dropped
                .clone()
                .into_iter()
                .chain([
                    ("queue_full", queue.overflowed),
                    ("queue_delay", queue.aged),
                    ("share", queue.over_share),
                ])
                .collect(),
            marked: stats.marked,
            waiting: stats.waiting,
            line: Tally { packets: self.line.packets() as u64, bytes: self.line.bytes() },
            link_bits_per_second: self.config.rate.bits_per_second() as f64,
            signalled_bits_per_second: self.router.signalled().map(|rate| rate.bits_per_second() as f64),
            signalled: stats.signalled,
            lowered: stats.lowered,
            indicators: stats.indicators,
            overhead: stats.overhead,
            withheld: Withheld::ALL.map(|(reason, name)| (name, stats.withheld(reason))).into(),
            delays: queue.delays.clone(),
            best_delays: queue.best_delays.clone(),
            ..self.counted.clone()
        }
    }
}

/// The rate law of a port.
fn law(port: &PortConfig, number: usize, now: Instant) -> Box<dyn RateLaw> {
    let Some(signals) = port.kickass.as_ref().filter(|signals| signals.on) else { return Box::new(()) };
    match signals.fixed {
        Some(rate) => Box::new(Fixed(rate)),
        None => {
            let first = FIRST_INTERVALS[number % FIRST_INTERVALS.len()];
            Box::new(rcp::RcpLaw::new(signals.rcp(), port.rate.bytes_per_second(), now, first))
        }
    }
}

fn router_config(port: &PortConfig, seed: u64) -> router::RouterConfig {
    router::RouterConfig {
        signals: port.kickass.clone().unwrap_or_default().signals(),
        link: Some(port.rate),
        catch_up: CATCH_UP,
        seed,
    }
}
