//! A queue: a FIFO that drops arrivals at random before it is full, the more the longer it is.

use std::{collections::VecDeque, time::Instant};

use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};
use rc3_sim::{
    Queue, Tally, Waiting,
    agent::Parcel,
    registry::{Fault, QueueDiscipline, QueueRequest},
    world::ParcelQueue,
};
use serde::Deserialize;

/// The entry of the registry.
pub(crate) const EARLY_DROP: QueueDiscipline = QueueDiscipline::new(
    "A FIFO that drops arrivals at random before it is full. Parameter: `from`, the share of the limit where that begins (0.5).",
    queue,
);

/// Its parameters in scenario files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Share of the limit above which it drops.
    from: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { from: 0.5 }
    }
}

fn queue(request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
    let Settings { from } = request.parameters.read()?;
    if !(0.0..=1.0).contains(&from) {
        return Err(Fault::new("parameters.from", "not within 0 to 1"));
    }
    let random = Pcg64::seed_from_u64(request.seed);
    Ok(Box::new(Fifo { packets: VecDeque::new(), bytes: 0, limit: request.bytes()?, from, random }))
}

/// One queue.
struct Fifo {
    packets: VecDeque<Waiting<Parcel>>,
    bytes: u64,
    limit: u64,
    from: f64,
    random: Pcg64,
}

impl Fifo {
    /// Probability that an arrival is dropped: from 0 at `from` to 1 at the limit.
    fn drops(&self) -> f64 {
        let filled = self.bytes as f64 / self.limit as f64;
        if filled <= self.from { 0.0 } else { (filled - self.from) / (1.0 - self.from) }
    }
}

impl Queue<Waiting<Parcel>> for Fifo {
    fn enqueue(&mut self, _now: Instant, packet: Waiting<Parcel>, dropped: &mut dyn FnMut(Waiting<Parcel>)) {
        let bytes = packet.size as u64;
        let draw = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
        if bytes > self.limit - self.bytes || draw < self.drops() {
            return dropped(packet);
        }
        self.bytes += bytes;
        self.packets.push_back(packet);
    }

    fn dequeue(
        &mut self,
        _now: Instant,
        _dropped: &mut dyn FnMut(Waiting<Parcel>),
    ) -> Option<Waiting<Parcel>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size as u64;
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        Tally { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    fn limit(&self) -> u64 {
        self.limit
    }
}
