//! The one task of an endpoint: receive, hand in, take out, send, sleep.
//!
//! Each round takes at most one batch from each socket, the primary's first, so that a flood of low-priority
//! datagrams never holds the primary up; then the primaries of all connections send, and only when they have
//! nothing left, or wait for their window or pacer, may RLP. After a heavy round, or a few light ones, the task lets
//! others run.
//!
//! The lock is held per batch, never while the kernel is called.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use rc3_core::{DatagramMeta, Transmit};
use tokio::time::{Sleep, sleep_until};

use crate::{
    socket::{AsyncSocket, Datagram, Outgoing, RecvBatch},
    state::{Bound, Shared, State},
};

/// Datagrams handed in under one lock.
const DATAGRAMS_PER_LOCK: usize = 128;

/// Batches of the primary in one round: as much as stays in the cache until the receiver on the same host has it.
const PRIMARY_BATCHES_MAX: usize = 4;

/// Batches of RLP in one round.
const LOW_BATCHES_MAX: usize = 4;

/// Datagrams in a batch of the primary.
const PRIMARY_SEGMENTS_MAX: usize = 44;

/// The same in the first batch after a pause: the receiver works on it while the next, twice as long, is made. 64 KB, a
/// common size of messages, are then two batches or three; shorter ones cost more calls than they save time.
const PRIMARY_SEGMENTS_FIRST: usize = 16;

/// Light rounds before others run. A task that yields has the runtime wake another thread to take it over, which costs
/// more than a round that finds nothing.
const ROUNDS_MAX: usize = 4;

/// Datagrams received in light rounds together.
const LIGHT_DATAGRAMS_MAX: usize = 64;

/// When to try a full socket again: tokio's timers know no less, and Linux calls a socket writable only when
/// half its buffer is free.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// How long nothing is armed for when nothing is due.
const FAR: Duration = Duration::from_secs(86_400);

/// The task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    bound: Arc<Bound>,
    primary: Channel,
    low: Channel,
    backlog: Backlog,
    /// Datagrams in the primary's next batch.
    burst: usize,
    /// RLP had something to send when the primary last had nothing.
    rlp_waits: bool,
    /// Whom to wake as soon as the lock is not needed.
    wakers: Vec<Waker>,
    timer: Pin<Box<Sleep>>,
    armed: Instant,
    #[cfg(feature = "metrics")]
    reporter: crate::metrics::Reporter,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let armed = Instant::now() + FAR;
        let bound = shared.bound();
        let send_buffer = bound.low().capabilities().send_buffer;
        Self {
            shared,
            bound,
            primary: Channel::default(),
            low: Channel::default(),
            backlog: Backlog::new(send_buffer),
            burst: PRIMARY_SEGMENTS_FIRST,
            rlp_waits: false,
            wakers: Vec::new(),
            timer: Box::pin(sleep_until(armed.into())),
            armed,
            #[cfg(feature = "metrics")]
            reporter: crate::metrics::Reporter::default(),
        }
    }

    /// Rounds until there is nothing to do, and then armed for what comes; or until others should have a turn.
    fn rounds(&mut self, cx: &mut Context<'_>) -> io::Result<Next> {
        let mut received = 0;
        for _ in 0..ROUNDS_MAX {
            let load = self.round(cx, &mut received)?;
            self.wakers.drain(..).for_each(Waker::wake);
            match load {
                Load::Light if received <= LIGHT_DATAGRAMS_MAX => {}
                Load::Light | Load::Heavy => break,
                Load::None => match self.sleep(cx)? {
                    Next::Round => {}
                    next => return Ok(next),
                },
            }
        }
        Ok(Next::Round)
    }

    /// One round; what it suggests is still there to do. Adds how many datagrams it `received`.
    fn round(&mut self, cx: &mut Context<'_>, received: &mut usize) -> io::Result<Load> {
        let Self { shared, bound, wakers, .. } = self;
        let mut count = self.primary.receive(cx, shared, wakers, &bound.primary)?;
        if let Some(low) = &bound.low {
            count += self.low.receive(cx, shared, wakers, low)?;
        }
        *received += count;
        let mut load = if count > 0 { Load::Light } else { Load::None };
        // Who waited for these may go on while the rest is done.
        wakers.drain(..).for_each(Waker::wake);
        let now = Instant::now();
        let rebound = shared.with_later(wakers, |state| {
            state.driver.begin();
            if state.core.poll_timeout().is_some_and(|deadline| deadline <= now) {
                state.core.handle_timeout(now);
            }
            (!Arc::ptr_eq(&state.bound, bound)).then(|| state.bound.clone())
        });
        if let Some(bound) = rebound {
            self.rebind(bound);
            load = load.max(Load::Light);
        }
        #[cfg(feature = "metrics")]
        self.reporter.tick(&self.shared, now);
        let sent = self.send_primary()?;
        load = load.max(sent.load());
        // With the primary's socket full, the low one would be next to hurt it.
        if sent == Sent::All {
            self.low.blocked = false;
            if self.low.unsent.is_some() || self.rlp_waits {
                load = load.max(self.send_low()?.load());
                // RLP may have left the primary something to send.
                if self.shared.with_later(&mut self.wakers, |state| state.core.wants_primary()) {
                    load = load.max(Load::Light);
                }
            }
        }
        Ok(load)
    }

    /// From here on over other sockets. What the old ones still held is lost, as on the way.
    fn rebind(&mut self, bound: Arc<Bound>) {
        self.backlog = Backlog::new(bound.low().capabilities().send_buffer);
        self.bound = bound;
        self.primary = Channel::default();
        self.low = Channel::default();
    }

    fn send_primary(&mut self) -> io::Result<Sent> {
        let Self { shared, bound, primary, burst, rlp_waits, wakers, .. } = self;
        let segments_max = bound.primary.segments_max().min(PRIMARY_SEGMENTS_MAX);
        for _ in 0..PRIMARY_BATCHES_MAX {
            let segments = (*burst).min(segments_max);
            let poll = |state: &mut State, buf: &mut Vec<u8>| {
                let transmit = state.core.poll_primary(Instant::now(), segments, buf);
                *rlp_waits = transmit.is_none() && state.core.wants_rlp();
                transmit
            };
            match primary.send(shared, wakers, &bound.primary, poll)? {
                Sent::More => *burst = (*burst * 2).min(PRIMARY_SEGMENTS_MAX),
                Sent::All => {
                    *burst = PRIMARY_SEGMENTS_FIRST;
                    return Ok(Sent::All);
                }
                Sent::Blocked => return Ok(Sent::Blocked),
            }
        }
        Ok(Sent::More)
    }

    fn send_low(&mut self) -> io::Result<Sent> {
        let Self { shared, bound, low, backlog, wakers, .. } = self;
        let socket = bound.low();
        let segments_max = socket.segments_max();
        for _ in 0..LOW_BATCHES_MAX {
            if !backlog.has_room(socket.queued_bytes()) {
                low.blocked = true;
                return Ok(Sent::Blocked);
            }
            let segments = backlog.segments().min(segments_max);
            let poll =
                |state: &mut State, buf: &mut Vec<u8>| state.core.poll_rlp(Instant::now(), segments, buf);
            match low.send(shared, wakers, socket, poll)? {
                Sent::More => {}
                end => return Ok(end),
            }
        }
        Ok(Sent::More)
    }

    /// Arms what wakes the task again, unless there is something to do at once.
    fn sleep(&mut self, cx: &mut Context<'_>) -> io::Result<Next> {
        let retry = Instant::now() + RETRY_AFTER;
        let mut deadline = None;
        if self.primary.blocked {
            deadline = Some(retry);
            if self.bound.primary.poll_writable(cx)?.is_ready() {
                return Ok(Next::Round);
            }
        } else if self.low.blocked {
            deadline = Some(retry);
        }
        let (asleep, over, due) = self
            .shared
            .with(|state| (state.driver.sleep(cx.waker()), state.is_over(), state.core.poll_timeout()));
        if over {
            return Ok(Next::End);
        }
        if !asleep {
            return Ok(Next::Round);
        }
        let deadline = [deadline, due].into_iter().flatten().min();
        let deadline = deadline.unwrap_or_else(|| if self.armed > retry { self.armed } else { retry + FAR });
        if deadline != self.armed {
            self.armed = deadline;
            self.timer.as_mut().reset(deadline.into());
        }
        Ok(if self.timer.as_mut().poll(cx).is_ready() { Next::Round } else { Next::Sleep })
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.rounds(cx) {
            Ok(Next::Sleep) => Poll::Pending,
            Ok(Next::Round) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Next::End) => {
                tracing::debug!("the last connection is gone, and nobody holds the endpoint");
                Poll::Ready(())
            }
            Err(error) => {
                tracing::error!(%error, "a socket is unusable, the endpoint ends");
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        #[cfg(feature = "metrics")]
        self.reporter.report(&self.shared, Instant::now());
        self.shared.with(|state| state.on_driver_lost(&self.shared));
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// What comes after some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There is more to do at once.
    Round,
    /// Nothing, until something wakes the task.
    Sleep,
    /// Nothing, ever.
    End,
}

/// What a round suggests is still there to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    /// Nothing.
    None,
    /// Little, perhaps nothing: worth another look.
    Light,
    /// Much. The application should have a turn, to take what came or to bring what is next.
    Heavy,
}

/// How sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Something was sent, there may be more.
    More,
    /// Nothing is left.
    All,
    /// The socket takes no more for now.
    Blocked,
}

impl Sent {
    fn load(self) -> Load {
        if self == Self::More { Load::Heavy } else { Load::None }
    }
}

/// The driver's end of one socket.
#[derive(Default)]
struct Channel {
    batch: RecvBatch,
    /// What the socket refused, to be sent before anything else; its bytes are in `buf`.
    unsent: Option<Transmit>,
    buf: Vec<u8>,
    blocked: bool,
}

impl Channel {
    /// Hands in one batch, if there is one; of how many datagrams.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        wakers: &mut Vec<Waker>,
        socket: &AsyncSocket,
    ) -> io::Result<usize> {
        let Poll::Ready(received) = socket.poll_recv(cx, &mut self.batch) else { return Ok(0) };
        let messages = received?;
        let mut count = 0;
        loop {
            let taken = shared.with_later(wakers, |state| {
                let mut taken = 0;
                let datagrams = self.batch.datagrams().take(DATAGRAMS_PER_LOCK);
                let datagrams = datagrams.inspect(|_| taken += 1).map(|Datagram { meta, data }| {
                    let meta = DatagramMeta {
                        remote: meta.remote,
                        local_ip: meta.local,
                        ecn: meta.ecn,
                        leading_len: meta.leading_len,
                    };
                    (meta, data)
                });
                state.core.handle_datagrams(Instant::now(), datagrams);
                taken
            });
            count += taken;
            if taken < DATAGRAMS_PER_LOCK {
                break;
            }
        }
        tracing::trace!(messages, datagrams = count, "received");
        // Only a socket that has nothing wakes the task again, so another look is due in any case.
        Ok(count.max(1))
    }

    /// Sends what was left, or what `poll` has.
    fn send(
        &mut self,
        shared: &Shared,
        wakers: &mut Vec<Waker>,
        socket: &AsyncSocket,
        poll: impl FnOnce(&mut State, &mut Vec<u8>) -> Option<Transmit>,
    ) -> io::Result<Sent> {
        self.blocked = false;
        let transmit = match self.unsent.take() {
            Some(transmit) => transmit,
            None => {
                self.buf.clear();
                match shared.with_later(wakers, |state| poll(state, &mut self.buf)) {
                    Some(transmit) => transmit,
                    None => return Ok(Sent::All),
                }
            }
        };
        let sent = socket.try_send(&Outgoing {
            destination: transmit.destination,
            source: transmit.source,
            ecn: transmit.ecn,
            dscp: shared.marks.dscp(transmit.level),
            priority: shared.marks.priority(transmit.level),
            contents: &self.buf,
            segment_size: transmit.segment_size,
            dont_fragment: transmit.dont_fragment,
        });
        match sent {
            Ok(()) => {
                tracing::trace!(level = %transmit.level, bytes = transmit.size, "sent");
                Ok(Sent::More)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.unsent = Some(transmit);
                self.blocked = true;
                Ok(Sent::Blocked)
            }
            // A destination this socket cannot reach, such as the other family: lost, as on the way.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                tracing::debug!(%error, destination = %transmit.destination, "datagram not sent");
                Ok(Sent::More)
            }
            Err(error) => Err(error),
        }
    }
}

/// How much of RLP may wait in the kernel, and how long its batches are.
///
/// What waits in the kernel is in the way of nobody, if the queues of the host know the marks; if they do not,
/// it delays the primary. So it should be little, but last until the driver comes again, which on a fast card
/// takes more: the bound doubles each time the queue has run dry within [`RETRY_AFTER`] and halves when
/// more than half of it is left. Batches are a sixteenth of the bound, since a batch holds the primary up
/// by its whole length. A queue that is always empty does not push back at all, and batches grow.
#[derive(Debug)]
struct Backlog {
    /// In the unit of [`AsyncSocket::queued_bytes`].
    limit: usize,
    limit_max: usize,
    segments: usize,
    /// The bound was hit, and at this time.
    full: Option<Instant>,
}

impl Backlog {
    const LIMIT_MIN: usize = 64 * 1024;
    /// Kernel memory of one full datagram.
    const DATAGRAM: usize = 2_304;
    const SEGMENTS_MAX: usize = 44;

    fn new(send_buffer: usize) -> Self {
        Self {
            limit: Self::LIMIT_MIN,
            // Room for one more batch and a burst of the primary, where both share a buffer.
            limit_max: (send_buffer / 2).max(Self::LIMIT_MIN),
            segments: Self::segments_of(Self::LIMIT_MIN),
            full: None,
        }
    }

    /// Whether another batch may go, with `queued` in the kernel now.
    fn has_room(&mut self, queued: usize) -> bool {
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

    fn segments(&self) -> usize {
        self.segments
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
        let mut backlog = Backlog::new(2 << 20);
        for _ in 0..10 {
            assert!(backlog.has_room(0));
        }
        assert_eq!(backlog.segments(), Backlog::SEGMENTS_MAX);
    }

    #[test]
    fn a_slow_link_gets_short_batches_and_a_short_queue() {
        let mut backlog = Backlog::new(2 << 20);
        for _ in 0..10 {
            assert!(backlog.has_room(0));
        }
        assert!(!backlog.has_room(Backlog::LIMIT_MIN));
        assert!(backlog.has_room(Backlog::LIMIT_MIN - 1));
        assert_eq!((backlog.limit, backlog.segments()), (Backlog::LIMIT_MIN, 1));
    }

    #[test]
    fn a_fast_card_gets_a_longer_queue_up_to_half_the_buffer() {
        let mut backlog = Backlog::new(2 << 20);
        for _ in 0..10 {
            assert!(!backlog.has_room(backlog.limit));
            assert!(backlog.has_room(0));
        }
        assert_eq!(backlog.limit, 1 << 20);
        assert!(!backlog.has_room(1 << 20));
        assert!(backlog.has_room((1 << 20) - 1));
        assert_eq!(backlog.limit, 1 << 19);
    }
}
