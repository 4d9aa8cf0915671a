//! The queue that both loops alone would cause on an otherwise idle link.

use std::{collections::VecDeque, time::Instant};

/// Batches stored: a round trip of 150 ms at 1 Gbit/s has 1500 of eight packets.
const BATCHES_MAX: usize = 4096;

/// A batch of packets that left together.
#[derive(Debug, Clone, Copy)]
struct SentBatch {
    at: Instant,
    bytes: u64,
    /// For RLP: the packet number of the last datagram, and the number of datagrams.
    rlp: Option<(u64, u64)>,
}

/// The own queue in front of a datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wait {
    /// The time in seconds that the link needs for it.
    pub(super) seconds: f64,
    /// For how long, in seconds, the link has not been idle before it.
    pub(super) busy: f64,
    /// Whether this is the first query for its batch.
    pub(super) first: bool,
}

/// Everything both loops have sent, oldest first.
#[derive(Debug, Default)]
pub(super) struct Own {
    batches: VecDeque<SentBatch>,
    /// The link's backlog after the last dropped batch, in seconds.
    busy: Option<(Instant, f64)>,
    /// Since when the link has not been idle.
    busy_since: Option<Instant>,
    /// The number queried last.
    asked: Option<u64>,
    /// Rate of the link in bytes per second, if known.
    rate: f64,
}

impl Own {
    /// RLP sends `packets` datagrams of `bytes` in all, the last of them with this number.
    pub(super) fn on_rlp_sent(&mut self, now: Instant, last: u64, packets: u64, bytes: u64) {
        self.push(SentBatch { at: now, bytes, rlp: Some((last, packets)) });
    }

    /// The primary sends.
    pub(super) fn on_primary_sent(&mut self, now: Instant, bytes: u64) {
        match self.batches.back_mut() {
            Some(batch) if batch.at == now && batch.rlp.is_none() => batch.bytes += bytes,
            _ => self.push(SentBatch { at: now, bytes, rlp: None }),
        }
    }

    /// The own queue in front of RLP's datagram with that number, on a link of `rate` bytes per second; `None` if the
    /// datagram is older than the last query, or was not sent.
    pub(super) fn wait(&mut self, number: u64, rate: f64) -> Option<Wait> {
        self.rate = rate;
        while self.batches.front().is_some_and(|batch| batch.rlp.is_none_or(|(last, _)| last < number)) {
            self.pop();
        }
        let batch = *self.batches.front()?;
        let (last, packets) = batch.rlp?;
        let before = packets.checked_sub(last - number + 1)?;
        let own = batch.bytes as f64 * before as f64 / packets as f64 / rate;
        let first = self.asked.replace(number).is_none_or(|asked| asked + packets <= last);
        let backlog = self.busy_at(batch.at);
        let since = self.busy_since.filter(|_| backlog > 0.0).unwrap_or(batch.at);
        let busy = batch.at.saturating_duration_since(since).as_secs_f64();
        Some(Wait { seconds: backlog + own, busy, first })
    }

    /// Reduces the link's backlog by this many seconds, because packets were lost in front of it.
    pub(super) fn cut(&mut self, seconds: f64) {
        if let Some((_, busy)) = &mut self.busy {
            *busy = (*busy - seconds).max(0.0);
        }
    }

    fn push(&mut self, batch: SentBatch) {
        if self.batches.len() == BATCHES_MAX {
            self.pop();
        }
        self.batches.push_back(batch);
    }

    fn pop(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            let service = if self.rate > 0.0 { batch.bytes as f64 / self.rate } else { 0.0 };
            let backlog = self.busy_at(batch.at);
            if backlog == 0.0 {
                self.busy_since = Some(batch.at);
            }
            self.busy = Some((batch.at, backlog + service));
        }
    }

    fn busy_at(&self, at: Instant) -> f64 {
        let Some((since, busy)) = self.busy else { return 0.0 };
        (busy - at.saturating_duration_since(since).as_secs_f64()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A packet of 1200 bytes a millisecond.
    const RATE: f64 = 1_200_000.0;

    fn ms(wait: Option<Wait>) -> Option<(f64, bool)> {
        wait.map(|wait| ((wait.seconds * 1e6).round() / 1e3, wait.first))
    }

    #[test]
    fn what_left_before_is_waited_for_until_it_is_served() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut own = Own::default();
        own.on_primary_sent(at(0), 6000);
        own.on_primary_sent(at(0), 6000);
        own.on_rlp_sent(at(0), 3, 4, 4800);
        own.on_rlp_sent(at(4), 5, 2, 2400);
        own.on_rlp_sent(at(30), 6, 1, 1200);
        assert_eq!(ms(own.wait(1, RATE)), Some((11.0, true)));
        assert_eq!(ms(own.wait(3, RATE)), Some((13.0, false)));
        assert_eq!(ms(own.wait(4, RATE)), Some((10.0, true)));
        assert_eq!(ms(own.wait(2, RATE)), None);
        own.cut(0.004);
        assert_eq!(ms(own.wait(5, RATE)), Some((7.0, false)));
        assert_eq!(ms(own.wait(6, RATE)), Some((0.0, true)));
        assert_eq!(ms(own.wait(7, RATE)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let mut own = Own::default();
        for nth in 0..2 * BATCHES_MAX as u64 {
            own.on_rlp_sent(start, nth, 1, 1200);
        }
        assert_eq!(own.batches.len(), BATCHES_MAX);
    }
}
