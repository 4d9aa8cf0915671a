//! How much RLP may leave in the kernel's queue.

use std::time::{Duration, Instant};

/// When to try a full socket again: tokio's timers have no finer resolution, and Linux reports a socket as writable
/// only when half its buffer is free.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(1);

/// How much of RLP may wait in the kernel, and the length of its batches.
///
/// If the host's queues honour the marks, RLP in the kernel delays nothing; otherwise it delays the primary. So it
/// should be little, but last until the driver runs again, which needs more on a fast card. The bound doubles each time
/// the queue has run dry within [`RETRY_AFTER`], and halves when more than half of it is left. Batches are a sixteenth
/// of the bound, since a batch delays the primary by its whole length. A queue that is always empty gives no back
/// pressure, and batches grow.
#[derive(Debug)]
pub(super) struct QueueLimit {
    /// In the unit of [`AsyncSocket::queued_bytes`](crate::socket::AsyncSocket::queued_bytes).
    limit: usize,
    limit_max: usize,
    pub(super) segments: usize,
    /// The bound was reached, at this time.
    full: Option<Instant>,
}

impl QueueLimit {
    const LIMIT_MIN: usize = 64 * 1024;
    /// Kernel memory of one full datagram.
    const DATAGRAM: usize = 2_304;
    const SEGMENTS_MAX: usize = 44;

    pub(super) fn new(send_buffer: usize) -> Self {
        Self {
            limit: Self::LIMIT_MIN,
            // Room for one more batch and a burst of the primary, if both share a buffer.
            limit_max: (send_buffer / 2).max(Self::LIMIT_MIN),
            segments: Self::segments_of(Self::LIMIT_MIN),
            full: None,
        }
    }

    /// Adapts the bound to `queued`, what the kernel holds now; returns whether another batch may leave.
    pub(super) fn admit(&mut self, queued: usize) -> bool {
        if queued >= self.limit {
            self.full.get_or_insert_with(Instant::now);
            return false;
        }
        match self.full {
            Some(since) if queued == 0 && since.elapsed() < 4 * RETRY_AFTER => {
                self.full = None;
                self.limit = (self.limit * 2).min(self.limit_max);
                self.segments = Self::segments_of(self.limit);
            }
            Some(_) => {
                self.full = None;
                if queued > self.limit / 2 {
                    self.limit = (self.limit / 2).max(Self::LIMIT_MIN);
                }
                self.segments = Self::segments_of(self.limit);
            }
            None if queued == 0 => self.segments = (self.segments * 2).min(Self::SEGMENTS_MAX),
            None => {}
        }
        true
    }

    fn segments_of(limit: usize) -> usize {
        (limit / 16 / Self::DATAGRAM).clamp(1, Self::SEGMENTS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_never_fills_gets_long_batches() {
        let mut queue_limit = QueueLimit::new(2 << 20);
        for _ in 0..10 {
            assert!(queue_limit.admit(0));
        }
        assert_eq!(queue_limit.segments, QueueLimit::SEGMENTS_MAX);
    }

    #[test]
    fn a_slow_link_gets_short_batches_and_a_short_queue() {
        let mut queue_limit = QueueLimit::new(2 << 20);
        for _ in 0..10 {
            assert!(queue_limit.admit(0));
        }
        assert!(!queue_limit.admit(QueueLimit::LIMIT_MIN));
        assert!(queue_limit.admit(QueueLimit::LIMIT_MIN - 1));
        assert_eq!((queue_limit.limit, queue_limit.segments), (QueueLimit::LIMIT_MIN, 1));
    }

    #[test]
    fn a_fast_card_gets_a_longer_queue_up_to_half_the_buffer() {
        let mut queue_limit = QueueLimit::new(2 << 20);
        for _ in 0..10 {
            assert!(!queue_limit.admit(queue_limit.limit));
            assert!(queue_limit.admit(0));
        }
        assert_eq!(queue_limit.limit, 1 << 20);
        assert!(!queue_limit.admit(1 << 20));
        assert!(queue_limit.admit((1 << 20) - 1));
        assert_eq!(queue_limit.limit, 1 << 19);
    }
}
