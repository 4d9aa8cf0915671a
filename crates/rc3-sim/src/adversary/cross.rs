//! Cross traffic of constant rate between two hosts, as of a call, and how much of it arrives.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rc3_core::units::{Level, Rate};

use crate::{
    Contents, Packet,
    agent::{Agent, Body, Flow, FlowEvent, Parcel, RoutePosition},
};

/// Bytes of a packet on the wire.
const SIZE: usize = 1000;

/// Packets sent and received.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// Either end.
pub(super) struct Cross {
    rate: Rate,
    /// It sends until then, from the beginning of its flow.
    lasts: Duration,
    sending: Option<Sending>,
    count: Arc<Mutex<Count>>,
}

struct Sending {
    flow: Flow,
    next: Instant,
    until: Instant,
}

impl Cross {
    pub(super) fn new(rate: Rate, lasts: Duration, count: Arc<Mutex<Count>>) -> Self {
        Self { rate, lasts, sending: None, count }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent for Cross {
    fn start(&mut self, now: Instant, flow: &Flow) {
        self.sending = Some(Sending { flow: flow.clone(), next: now, until: now + self.lasts });
    }

    fn handle(&mut self, _: Instant, _: Parcel) {
        self.count().received += 1;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.sending.as_ref().filter(|sending| sending.next < sending.until).map(|sending| sending.next)
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, now: Instant, _: u64) -> Option<Packet<Parcel>> {
        let gap = self.rate.time_for(SIZE as u64);
        let sending = self.sending.as_mut().filter(|sending| sending.next <= now)?;
        if sending.next >= sending.until {
            return None;
        }
        sending.next += gap;
        let Flow { id, from, to, scheme, .. } = sending.flow;
        let body = Body::Udp { ecn: 0, contents: Contents::new(&[]), leading: None, dont_fragment: true };
        let payload = Parcel { flow: id, scheme, from, to, progress: RoutePosition::default(), body };
        self.count().sent += 1;
        Some(Packet { size: SIZE, level: Level::PRIMARY, payload })
    }

    fn poll_event(&mut self) -> Option<FlowEvent> {
        None
    }
}
