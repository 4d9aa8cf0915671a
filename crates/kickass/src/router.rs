//! A router's output port: a queue, a rate law, and signals in the lengths of departing packets (Kick-Ass §2).
//!
//! Packets enter by [`Router::enqueue`] and leave by [`Router::dequeue`], at the rate of the link if one is set;
//! [`Router::poll_timeout`] says when to call it again. The two parts of a fragmented packet leave back to back.
//!
//! The rate is for traffic of the best level. Worse levels only use what that leaves, so the law counts neither their
//! arrivals nor their queue, and they carry no signals.

use std::time::{Duration, Instant};

use rc3_units::Rate;

use crate::{
    code::Code,
    law::RateLaw,
    link::LinkClock,
    packet::{FlowKey, Indivisible, Malformed, Packet},
    queue::{Queue, Queued, Routed},
    signal::{self, Backlog, PacketPart, Signaller, Subject, Withheld},
    stats::{Stats, Tally},
};

/// Configuration of a [`Router`].
#[derive(Debug, Clone, PartialEq)]
pub struct RouterConfig {
    /// How it signals; the law decides whether.
    pub signals: signal::SignalConfig,
    /// The rate at which packets leave, IP headers included; `None`, the default, if the caller paces them.
    pub link: Option<Rate>,
    /// Most missed transmission time that a late caller may catch up on: 10 ms.
    pub catch_up: Duration,
    /// Random: the key of its hashes, and the first identification for IPv6 fragments. 0.
    pub seed: u64,
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            signals: signal::SignalConfig::default(),
            link: None,
            catch_up: Duration::from_millis(10),
            seed: 0,
        }
    }
}

/// What a router needs of a packet: of a [`Packet`], or of one that shares its bytes with others.
pub trait RouterPacket: Queued + Routed + Sized {
    /// The properties that decide about signals.
    fn subject(&self) -> Subject;

    /// The flow it belongs to.
    fn flow(&self) -> FlowKey;

    /// Splits it, as [`Packet::split`] does.
    ///
    /// # Errors
    /// As there.
    fn split(&mut self, lead: usize, identification: u32) -> Result<Self, Indivisible>;
}

impl RouterPacket for Packet {
    fn subject(&self) -> Subject {
        Subject::of(self)
    }

    fn flow(&self) -> FlowKey {
        self.flow()
    }

    fn split(&mut self, lead: usize, identification: u32) -> Result<Self, Indivisible> {
        self.split(lead, identification)
    }
}

/// One output port. `now` never runs backwards between calls.
#[derive(Debug)]
pub struct Router<Q, L, P = Packet> {
    queue: Q,
    law: L,
    signaller: Signaller,
    link: LinkClock,
    /// The second part of the packet that left last.
    rest: Option<P>,
    /// Identification for the next IPv6 packet that gets a Fragment header.
    identification: u32,
    /// Statistics without those of the queue.
    stats: Stats,
}

impl<Q: Queue<P>, L: RateLaw, P: RouterPacket> Router<Q, L, P> {
    /// A router whose link is idle at `now`.
    pub fn new(config: RouterConfig, queue: Q, law: L, now: Instant) -> Self {
        let RouterConfig { signals, link, catch_up, seed } = config;
        Self {
            queue,
            law,
            signaller: Signaller::new(signals, seed),
            link: LinkClock::new(link, catch_up, now),
            rest: None,
            identification: (seed >> 32) as u32 ^ seed as u32,
            stats: Stats::default(),
        }
    }

    /// Queues a packet for this port. The queue may drop it or others.
    pub fn enqueue_packet(&mut self, now: Instant, packet: P) {
        self.stats.arrived.add(packet.bytes() as usize);
        if self.is_empty() {
            self.link.on_idle(now);
        }
        if self.queue.is_best(&packet) {
            self.advance(now);
            let rtt = self.signaller.on_arrival(&packet.subject(), || packet.flow());
            self.stats.indicators += u64::from(rtt.is_some());
            self.law.on_arrival(packet.bytes(), rtt.map(|bucket| bucket.rtt()));
        }
        self.queue.enqueue(now, packet, &mut drop);
    }

    /// The packet that leaves now; `None` if the queue is empty or the link is busy.
    pub fn dequeue(&mut self, now: Instant) -> Option<P> {
        if self.link.free > now {
            return None;
        }
        let packet = match self.rest.take() {
            Some(rest) => rest,
            None => self.dequeue_signalled(now)?,
        };
        self.link.on_sent(now, packet.bytes());
        self.stats.departed.add(packet.bytes() as usize);
        Some(packet)
    }

    /// When [`Self::dequeue`] will have a packet: a past time if it has one now, `None` if the queue is empty. CoDel
    /// may drop all queued packets on that call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.link.free)
    }

    /// The caller cannot take packets at `now`: the link waits, and does not make up for it.
    pub fn hold(&mut self, now: Instant) {
        self.link.on_idle(now);
    }

    /// When the last bit of the packet sent last has left, if the link has a rate; else some past time.
    pub fn link_free(&self) -> Instant {
        self.link.free
    }

    /// Replaces the configuration; queued packets stay. Only a change of the sampling discards the record of when each
    /// flow was signalled.
    pub fn reconfigure(&mut self, config: RouterConfig) {
        let RouterConfig { signals, link, catch_up, seed } = config;
        self.signaller.reconfigure(signals, seed);
        self.link.reconfigure(link, catch_up);
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.rest.is_none() && self.queue.is_empty()
    }

    /// Statistics so far.
    pub fn stats(&self) -> Stats {
        let mut waiting = self.queue.waiting();
        if let Some(rest) = &self.rest {
            waiting += Tally { packets: 1, bytes: rest.bytes() };
        }
        Stats { waiting, marked: self.queue.marked(), ..self.stats }
    }

    /// Makes the updates of the law due by `now`. Each arrival and departure does that too; call this to see the rate
    /// of an idle link.
    pub fn advance(&mut self, now: Instant) {
        // Only packets of the best level are fragmented.
        let rest = self.rest.as_ref().map_or(0, Queued::bytes);
        let backlog = Backlog { bytes: self.queue.best_bytes(), limit: self.queue.limit() };
        let silent = self.signaller.advance(now, backlog, self.law.rtt());
        self.law.set_silent(now, silent);
        self.law.advance(now, self.queue.best_bytes() + rest);
    }

    /// The law, as of the last arrival, departure or [`Self::advance`].
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The rate that it signals, as of then: that of the law, if it has a code and the queue is not too long.
    pub fn signalled(&self) -> Option<Rate> {
        self.law.rate().filter(|rate| !self.signaller.is_silent() && Code::nearest(*rate).is_some())
    }

    /// The law, to change it.
    pub fn law_mut(&mut self) -> &mut L {
        &mut self.law
    }

    /// Its queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// The queue, to change it. Packets you remove count as dropped; packets you add make [`Self::stats`] wrong.
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.queue
    }

    /// The next packet of the queue, fragmented if it is to carry a signal.
    fn dequeue_signalled(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let mut packet = self.queue.dequeue(now, &mut drop)?;
        if let Err(reason) = self.signal(now, &mut packet) {
            self.stats.withheld[reason as usize] += 1;
        }
        Some(packet)
    }

    fn signal(&mut self, now: Instant, packet: &mut P) -> Result<(), Withheld> {
        if !self.queue.is_best(packet) {
            return Err(Withheld::Level);
        }
        let subject = packet.subject();
        let rate = self.law.rate();
        let code = self.signaller.decide(now, &subject, || packet.flow(), rate)?;
        let before = packet.bytes();
        let rest = packet.split(code.payload_len(), self.identification).map_err(|_| Withheld::Headers)?;
        let overhead = packet.bytes() + rest.bytes() - before;
        if subject.ipv6 && !subject.fragment_header {
            self.identification = self.identification.wrapping_add(1);
        }
        self.rest = Some(rest);
        // The link also carries these header bytes, which the law sees nowhere else.
        self.law.on_arrival(overhead, None);
        self.stats.overhead += overhead;
        match subject.place {
            PacketPart::Leading => self.stats.lowered += 1,
            PacketPart::Whole | PacketPart::Other => self.stats.signalled += 1,
        }
        Ok(())
    }
}

impl<Q: Queue<Packet>, L: RateLaw> Router<Q, L> {
    /// Queues a packet for this port: the bytes of one IP packet. The queue may drop it or others.
    ///
    /// # Errors
    /// If the bytes are not a valid packet. They are counted and discarded.
    pub fn enqueue(&mut self, now: Instant, bytes: Vec<u8>) -> Result<(), Malformed> {
        let packet = Packet::parse(bytes).inspect_err(|_| self.stats.malformed += 1)?;
        self.enqueue_packet(now, packet);
        Ok(())
    }
}
