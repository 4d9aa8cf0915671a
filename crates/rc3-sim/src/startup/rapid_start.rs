//! Rapid Start (draft-kazuho-ccwg-rapid-start-02).
//!
//! The first flight is two initial windows, paced over a round trip. The window triples per round trip while the least
//! recent round-trip time is within 4 ms and a tenth of the least ever, else it doubles. The first loss shrinks it to its
//! 0.7; as losses of that flight become known it shrinks on to 0.7 of what was delivered, at least a third of that at the
//! loss. Pacing is quinn-proto's, a quarter more than a window per round trip.

use std::time::{Duration, Instant};

use super::{Acked, BETA, FastStartLaw, Lost, rounds::Rounds};

/// A queue shows above the lesser of both.
const QUEUE: Duration = Duration::from_millis(4);
const QUEUE_FACTOR: f64 = 1.1;

#[derive(Debug, Clone)]
pub(super) struct RapidStart {
    window: u64,
    rounds: Rounds,
    recovery: Option<Recovery>,
}

#[derive(Debug, Clone, Copy)]
struct Recovery {
    began: Instant,
    window_before: u64,
    lost: u64,
}

impl Recovery {
    fn window(&self) -> u64 {
        let delivered = self.window_before.saturating_sub(self.lost).max(self.window_before / 3);
        (delivered as f64 * BETA) as u64
    }
}

impl RapidStart {
    pub(super) fn new(window: u64) -> Self {
        Self { window, rounds: Rounds::default(), recovery: None }
    }
}

impl FastStartLaw for RapidStart {
    fn window(&self) -> u64 {
        self.recovery.as_ref().map_or(self.window, Recovery::window)
    }

    fn on_ack(&mut self, Acked { now, sent, bytes, app_limited, rtt_min }: Acked) -> Option<u64> {
        if let Some(recovery) = &self.recovery {
            return (sent > recovery.began).then(|| recovery.window());
        }
        self.rounds.on_ack(now, sent);
        let allowed = (rtt_min + QUEUE).min(rtt_min.mul_f64(QUEUE_FACTOR));
        let empty = self.rounds.floor().is_none_or(|floor| floor <= allowed);
        if !app_limited {
            self.window += if empty { 2 * bytes } else { bytes };
        }
        None
    }

    fn on_loss(&mut self, Lost { now, bytes }: Lost) -> Option<u64> {
        let window_before = self.window;
        self.recovery.get_or_insert(Recovery { began: now, window_before, lost: 0 }).lost += bytes;
        None
    }
}
