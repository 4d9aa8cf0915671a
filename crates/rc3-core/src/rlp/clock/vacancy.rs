//! Whether the link has room, from what the first flight does to the queue.
//!
//! A train that leaves at the card's rate measures how fast the link is, not how much of it is free: nothing gets between its
//! packets. But where the link was idle the queue that the flight makes drains while nothing is added; where others keep it
//! busy, each byte of the flight stays in the queue for a round trip.

use std::time::{Duration, Instant};

/// Departures of the flight that are looked at.
const DEPARTURES_MAX: usize = 128;
/// What is later than the beginning by less tells nothing.
const LATE_MIN: Duration = Duration::from_millis(1);

/// The first flight of a busy period.
#[derive(Debug, Default)]
pub(super) struct Vacancy {
    begun: Option<Instant>,
    /// Bytes of both loops since then.
    bytes: u64,
    /// When RLP sent, and how many bytes had left before.
    departures: Vec<(Instant, u64)>,
}

/// What a packet of the flight says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// The queue drains.
    Free,
    /// It does not.
    Taken,
    /// Nothing.
    Unknown,
}

impl Vacancy {
    /// RLP sends a batch of `bytes`.
    pub(super) fn on_rlp_sent(&mut self, now: Instant, bytes: u64) {
        self.begun.get_or_insert(now);
        if self.departures.len() < DEPARTURES_MAX && self.departures.last().is_none_or(|&(at, _)| at < now) {
            self.departures.push((now, self.bytes));
        }
        self.bytes += bytes;
    }

    /// The primary has sent.
    pub(super) fn on_primary_sent(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The packet that left at `departed` waited for `wait` longer than the first, on a link of `rate` bytes per second.
    pub(super) fn room(&self, departed: Instant, wait: Duration, rate: f64, rtt: Duration) -> Room {
        let Some(late) = self.begun.and_then(|begun| departed.checked_duration_since(begun)) else {
            return Room::Unknown;
        };
        let Ok(at) = self.departures.binary_search_by_key(&departed, |&(at, _)| at) else {
            return Room::Unknown;
        };
        if late < LATE_MIN {
            return Room::Unknown;
        }
        // How long the link takes for what left before, and so how much longer this would wait were it busy.
        let served = Duration::from_secs_f64(self.departures[at].1 as f64 / rate);
        if wait + late.min(served) / 2 < served || wait < LATE_MIN / 2 {
            Room::Free
        } else if late > rtt / 2 {
            Room::Taken
        } else {
            Room::Unknown
        }
    }
}
