//! FQ-CoDel with ECN (RFC 8290) in front of a link of a world.

use std::{collections::VecDeque, time::Instant};

use kickass::queue::{FqCodel as Discipline, FqCodelConfig, Queue as _};

use super::{Dropped, Packet, Queue};
use crate::{Stamped, agent::Parcel};

type Queued = Packet<Stamped<Parcel>>;

/// The discipline of [`kickass::queue`] over parcels. Marks go into the ECN bits of UDP datagrams.
#[derive(Debug)]
pub struct FqCodel {
    discipline: Discipline<Queued>,
    /// Dropped by CoDel when packets were taken out, and not told yet.
    dropped: VecDeque<Queued>,
}

impl FqCodel {
    /// An empty queue.
    ///
    /// # Panics
    /// As [`Discipline::new`].
    pub fn new(config: FqCodelConfig) -> Self {
        Self { discipline: Discipline::new(config), dropped: VecDeque::new() }
    }
}

impl Queue<Stamped<Parcel>> for FqCodel {
    fn enqueue(&mut self, now: Instant, packet: Queued) -> Dropped<Stamped<Parcel>> {
        let mut lost = Vec::new();
        self.discipline.enqueue(now, packet, &mut |packet| lost.push(packet));
        // From the head of the fattest flow, whosever arrival it was.
        let mut lost = lost.into_iter();
        match lost.next() {
            None => Dropped::Nothing,
            Some(first) => Dropped::PushedOut { first, rest: lost.collect() },
        }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Queued> {
        let dropped = &mut self.dropped;
        self.discipline.dequeue(now, &mut |packet| dropped.push_back(packet))
    }

    fn bytes(&self) -> u64 {
        self.discipline.bytes()
    }

    fn len(&self) -> usize {
        self.discipline.packets()
    }

    fn poll_dropped(&mut self) -> Option<Queued> {
        self.dropped.pop_front()
    }
}
