//! Like SUSS (SIGCOMM 2024): slow start that quadruples where two rounds of doubling would still find the path empty.
//!
//! A round quadruples if its round-trip time has not grown by an eighth, and four times the window would take no longer
//! than half a round trip at the rate that the spacing of ACKs shows, or the ACKs come as fast as the packets left, so
//! that nothing shows at all. SUSS releases the added packets paced behind ACK-clocked ones; here quinn-proto paces all
//! of them. It has no HyStart to leave slow start by, as plain CUBIC here has none.

use std::time::Instant;

use super::{Acked, BETA, FastStartLaw, Lost, rounds::Rounds};

/// A round trip longer than this many of the least: a queue.
const QUEUE: f64 = 1.125;
/// Packets that are acknowledged this much slower than they were sent: the bottleneck shows.
const STRETCH: f64 = 1.1;

#[derive(Debug, Clone)]
pub(super) struct Suss {
    window: u64,
    rounds: Rounds,
    train: Option<Train>,
    /// Whether this round quadruples.
    fast: bool,
}

/// What was acknowledged in a round.
#[derive(Debug, Clone, Copy)]
struct Train {
    /// When the first packet was acknowledged, and when it was sent.
    first: (Instant, Instant),
    last: (Instant, Instant),
    /// After the first.
    bytes: u64,
}

impl Suss {
    pub(super) fn new(window: u64) -> Self {
        Self { window, rounds: Rounds::default(), train: None, fast: false }
    }
}

impl FastStartLaw for Suss {
    fn window(&self) -> u64 {
        self.window
    }

    fn on_ack(&mut self, Acked { now, sent, bytes, app_limited, rtt_min }: Acked) -> Option<u64> {
        if self.rounds.on_ack(now, sent) {
            let rtt = rtt_min.as_secs_f64();
            let flat = self.rounds.rtt_before.is_some_and(|before| before.as_secs_f64() <= QUEUE * rtt);
            self.fast = flat && self.train.is_some_and(|train| train.has_room(4 * self.window, rtt));
            self.train = None;
        }
        match &mut self.train {
            Some(train) => {
                train.last = (now, sent.max(train.last.1));
                train.bytes += bytes;
            }
            none => *none = Some(Train { first: (now, sent), last: (now, sent), bytes: 0 }),
        }
        let queued = now.saturating_duration_since(sent).as_secs_f64() > QUEUE * rtt_min.as_secs_f64();
        if !app_limited {
            self.window += if self.fast && !queued { 3 * bytes } else { bytes };
        }
        None
    }

    fn on_loss(&mut self, _: Lost) -> Option<u64> {
        Some((self.window as f64 * BETA) as u64)
    }
}

impl Train {
    /// Whether so many bytes fit into half a round trip at the rate of the ACKs, or no rate shows.
    fn has_room(&self, window: u64, rtt: f64) -> bool {
        let acked = self.last.0.saturating_duration_since(self.first.0).as_secs_f64();
        let sent = self.last.1.saturating_duration_since(self.first.1).as_secs_f64();
        let fits = acked * window as f64 <= rtt / 2.0 * self.bytes as f64;
        self.bytes > 0 && (fits || acked <= STRETCH * sent)
    }
}
