//! A router's queue that measures arrivals, runs RCP's rate law and writes the rate into packets.

use std::time::Instant;

use kickass::{
    law::RateLaw,
    rcp::{RcpConfig, RcpLaw},
};
use rc3_core::units::Rate;

use crate::{
    Queue, Tally, Waiting,
    agent::{Body, Parcel},
    random::Random,
};

/// Any queue, with RCP around it.
///
/// All arrivals count, of any protocol and also those dropped. RCP packets that request a rate get it as they leave.
#[derive(Debug)]
pub struct RcpQueue<Q> {
    queue: Q,
    law: RcpLaw,
}

impl<Q: Queue<Waiting<Parcel>>> RcpQueue<Q> {
    /// RCP around `queue`, in front of a link of this capacity that is idle `since` then. The seed shifts the
    /// updates against those of other routers.
    ///
    /// # Panics
    /// See [`RcpLaw::new`].
    pub fn new(queue: Q, config: RcpConfig, capacity: Rate, since: Instant, seed: u64) -> Self {
        // Half to one and a half intervals. ns-2 draws from a normal distribution, whose logarithm is not the same
        // on every platform; here only that they differ matters.
        let part = 0.5 + f64::from(Random::new(seed).bits() as u32) / f64::from(u32::MAX);
        let first = config.interval_max.mul_f64(part);
        let law = RcpLaw::new(config, capacity.bits_per_second() as f64 / 8.0, since, first);
        Self { queue, law }
    }
}

impl<Q: Queue<Waiting<Parcel>>> Queue<Waiting<Parcel>> for RcpQueue<Q> {
    fn enqueue(&mut self, now: Instant, packet: Waiting<Parcel>, dropped: &mut dyn FnMut(Waiting<Parcel>)) {
        self.law.advance(now, self.queue.bytes());
        let rtt = match &packet.payload.payload().body {
            Body::Rcp(header) => header.rtt,
            Body::Udp { .. } => Default::default(),
        };
        self.law.on_arrival(packet.size as u64, Some(rtt));
        self.queue.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Waiting<Parcel>)) -> Option<Waiting<Parcel>> {
        self.law.advance(now, self.queue.bytes());
        let mut packet = self.queue.dequeue(now, dropped)?;
        if let Body::Rcp(header) = &mut packet.payload.payload_mut().body
            && header.kind.asks()
        {
            header.rate = header.rate.min(self.law.rate());
        }
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        self.queue.waiting()
    }

    fn limit(&self) -> u64 {
        self.queue.limit()
    }
}
