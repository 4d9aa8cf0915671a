//! A router's queue that runs a rate law and tells the rate by where it fragments what passes (Kick-Ass §2).

use std::time::{Duration, Instant};

use kickass::{
    law::RateLaw,
    rcp,
    signal::{self, Backlog, Signaller, Withheld},
};
use rc3_core::units::Rate;

use super::{Dropped, Packet, Queue, ip};
use crate::{
    Stamped,
    agent::{Body, Parcel},
    random::{derive, unit},
};

/// Settings of a [`KickAssQueue`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KickAssConfig {
    /// The rate law.
    pub law: rcp::Config,
    /// How it signals.
    pub signals: signal::Config,
}

/// Any queue, with Kick-Ass around it.
///
/// The law hears of all arrivals of the best level, of whatever protocol and also those dropped, and of round trips by
/// indicators. A packet that is fragmented leaves with one more IP header, also on the link behind the queue.
#[derive(Debug)]
pub struct KickAssQueue<Q> {
    queue: Q,
    law: rcp::Law,
    signaller: Signaller,
    /// How many bytes may wait.
    limit: u64,
}

impl<Q: Queue<Stamped<Parcel>>> KickAssQueue<Q> {
    /// Kick-Ass around `queue`, in which `limit` bytes may wait, in front of a link of this capacity that is idle
    /// `since` then. The seed shifts the updates against those of other routers.
    ///
    /// # Panics
    /// As [`rcp::Law::new`].
    pub fn new(
        queue: Q,
        limit: u64,
        config: KickAssConfig,
        capacity: Rate,
        since: Instant,
        seed: u64,
    ) -> Self {
        let KickAssConfig { law, signals } = config;
        let first = first_interval(&law, seed);
        let law = rcp::Law::new(law, capacity.bits_per_second() as f64 / 8.0, since, first);
        Self { queue, law, signaller: Signaller::new(signals, seed), limit }
    }

    /// The law, as of the latest packet that came or went.
    pub fn law(&self) -> &rcp::Law {
        &self.law
    }

    /// Fragments a packet that leaves, if it is to carry a signal.
    fn signal(&mut self, now: Instant, packet: &mut Packet<Stamped<Parcel>>) -> Result<(), Withheld> {
        if !self.queue.is_best(packet) {
            return Err(Withheld::Level);
        }
        let subject = ip::subject(packet);
        let backlog = Backlog { bytes: self.queue.best_bytes(), limit: self.limit };
        let flow = || ip::flow(packet.payload.payload());
        let code = self.signaller.decide(now, &subject, flow, backlog, RateLaw::rate(&self.law))?;
        let Body::Udp { leading, .. } = &mut packet.payload.payload_mut().body else {
            return Err(Withheld::Place);
        };
        *leading = u16::try_from(code.payload_len()).ok();
        packet.size += ip::HEADER;
        // The link carries these as well, and nobody else will tell the law.
        self.law.on_arrival(ip::HEADER as u64, Duration::ZERO);
        Ok(())
    }
}

/// Half to one and a half of the longest interval: what matters is that routers differ.
fn first_interval(config: &rcp::Config, seed: u64) -> Duration {
    config.interval_max.mul_f64(0.5 + unit(derive(seed, 0)))
}

impl<Q: Queue<Stamped<Parcel>>> Queue<Stamped<Parcel>> for KickAssQueue<Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<Stamped<Parcel>>) -> Dropped<Stamped<Parcel>> {
        if self.queue.is_best(&packet) {
            self.law.advance(now, self.queue.best_bytes());
            let flow = || ip::flow(packet.payload.payload());
            let rtt = self.signaller.on_arrival(&ip::subject(&packet), flow);
            self.law.on_arrival(packet.size as u64, rtt.map(|bucket| bucket.rtt()).unwrap_or_default());
        }
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<Stamped<Parcel>>> {
        self.law.advance(now, self.queue.best_bytes());
        let mut packet = self.queue.dequeue(now)?;
        // Why a packet leaves as it came is nobody's business here.
        let _ = self.signal(now, &mut packet);
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn is_best(&self, packet: &Packet<Stamped<Parcel>>) -> bool {
        self.queue.is_best(packet)
    }

    fn best_bytes(&self) -> u64 {
        self.queue.best_bytes()
    }

    fn poll_dropped(&mut self) -> Option<Packet<Stamped<Parcel>>> {
        self.queue.poll_dropped()
    }
}
