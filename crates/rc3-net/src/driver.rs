//! The task of an endpoint, or of one of its workers: receives, handles, sends, sleeps.
//!
//! Each round takes what waits for the primary, up to a limit, and then at most one batch of RLP, so that a flood of
//! low-priority datagrams never delays the primary. Then the primaries of all connections send; RLP may send only when
//! they have nothing left, or wait for their window or pacer. After a heavy round, or a few light ones, the task yields.
//! Where packets come fast, those of a millisecond are read together ([`rc3_core::Endpoint::read_at`]).
//!
//! Tasks that wait for data are woken after each received batch: other threads run them while the next one is handled.
//!
//! The lock is held per batch, never during a system call.
//!
//! `restart.rs` and `workers.rs` are layers of their own: with one worker and no other process at the port they do
//! nothing.

mod channel;
mod queue_limit;
mod receive_faults;
mod restart;
mod workers;

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use self::{
    channel::{Channel, SendResult},
    queue_limit::{QueueLimit, RETRY_AFTER},
    restart::Relays,
    workers::{RlpTurn, take_mail},
};
#[cfg(all(target_os = "linux", not(rc3_portable)))]
use crate::relay::RelayLink;
#[cfg(feature = "metrics")]
use crate::socket::EndpointSocket;
use crate::{bound::Bound, runtime::AsyncTimer, shared::Shared, state::EndpointState, workers::Inbox};

/// Batches of the primary in one round: as much as stays in the cache until a receiver on the same host reads it.
const PRIMARY_BATCHES_MAX: usize = 4;

/// Batches of RLP in one round.
const LOW_BATCHES_MAX: usize = 4;

/// Datagrams in a batch of the primary.
const PRIMARY_SEGMENTS_MAX: usize = 44;

/// The same in the first batch after a pause: the receiver processes it while the next, twice as long, is made. 64 KB,
/// a common size of messages, are then two or three batches; shorter ones cost more in calls than they save in time.
const PRIMARY_SEGMENTS_FIRST: usize = 16;

/// Light rounds before the task yields. A task that yields makes the runtime wake another thread for it, which costs
/// more than a round without work.
const ROUNDS_MAX: usize = 4;

/// Datagrams received in light rounds together, and those of the primary after which a round goes on to send.
const LIGHT_DATAGRAMS_MAX: usize = 64;

/// Longest timer when nothing is due.
const FAR: Duration = Duration::from_secs(86_400);

/// The task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    bound: Bound,
    primary: Channel,
    low: Channel,
    /// The processes that have the port before and after this one.
    relays: Relays,
    queue_limit: QueueLimit,
    /// Datagrams in the primary's next batch.
    burst: usize,
    /// RLP had something to send when the primary last had nothing.
    rlp_waits: bool,
    rlp_turn: RlpTurn,
    inbox: Inbox,
    /// Until then, what arrives stays in the sockets, and nobody waits for them.
    read_at: Option<Instant>,
    /// There is no work and will be none.
    ended: bool,
    /// Wakers to call as soon as the lock is free.
    wakers: Vec<Waker>,
    timer: Pin<Box<dyn AsyncTimer>>,
    armed: Instant,
    #[cfg(feature = "metrics")]
    reporter: crate::metrics::EndpointReporter,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, inbox: Inbox) -> Self {
        let armed = shared.runtime.now() + FAR;
        let bound = shared.bound();
        let queue_limit = queue_limit(&bound, &shared);
        let timer = shared.runtime.new_timer(armed);
        Self {
            shared,
            bound,
            primary: Channel::default(),
            low: Channel::default(),
            relays: Relays::default(),
            queue_limit,
            burst: PRIMARY_SEGMENTS_FIRST,
            rlp_waits: false,
            rlp_turn: RlpTurn::default(),
            inbox,
            read_at: None,
            ended: false,
            wakers: Vec::new(),
            timer,
            armed,
            #[cfg(feature = "metrics")]
            reporter: crate::metrics::EndpointReporter::default(),
        }
    }

    /// Takes the port over from the process at the other end of `link`.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(crate) fn set_predecessor(&mut self, link: RelayLink) {
        self.shared.with(|state| state.core.follow_predecessor());
        self.relays.set_predecessor(link);
    }

    /// Runs rounds until there is no work, and then arms timers and wakers; or until other tasks should run.
    fn rounds(&mut self, cx: &mut Context<'_>) -> io::Result<Next> {
        let mut received = 0;
        for _ in 0..ROUNDS_MAX {
            let load = self.round(cx, &mut received)?;
            self.wakers.drain(..).for_each(Waker::wake);
            match load {
                RemainingWork::Light if received <= LIGHT_DATAGRAMS_MAX => {}
                RemainingWork::Light | RemainingWork::Heavy => break,
                RemainingWork::None => match self.sleep(cx)? {
                    Next::Round => {}
                    next => return Ok(next),
                },
            }
        }
        Ok(Next::Round)
    }

    /// One round; returns the remaining work. Adds the number of datagrams to `received`.
    fn round(&mut self, cx: &mut Context<'_>, received: &mut usize) -> io::Result<RemainingWork> {
        let count = self.receive(cx)?;
        *received += count;
        let mut load = if count > 0 { RemainingWork::Light } else { RemainingWork::None };
        self.wakers.drain(..).for_each(Waker::wake);
        let Self { shared, bound, wakers, read_at, .. } = self;
        let now = shared.runtime.now();
        let (rebound, completed, closes) = shared.with_later(wakers, |state| {
            state.requests.take_all();
            if state.core.poll_timeout().is_some_and(|deadline| deadline <= now) {
                state.core.handle_timeout(now);
            }
            let rebound = (!state.bound.is(bound)).then(|| state.bound.clone());
            self.relays.follow_state(state);
            *read_at = read_at.or_else(|| state.core.read_at(now));
            (
                rebound,
                state.connections.has_completed(),
                state.lifetime.owes_close().then_some(state.lifetime.closes),
            )
        });
        if let Some(bound) = rebound {
            self.rebind(bound);
            load = load.max(RemainingWork::Light);
        }
        self.relays.send(cx);
        #[cfg(feature = "metrics")]
        if self.reporter.is_due(now) {
            self.report(now);
        }
        let sent = self.send_primary()?;
        if completed {
            self.shared.with_later(&mut self.wakers, EndpointState::announce_completed);
        }
        if let Some(closes) = closes.filter(|_| sent == SendResult::All) {
            self.shared.with_later(&mut self.wakers, |state| state.lifetime.closes_sent = closes);
            self.shared.waiters.idle.notify_waiters();
        }
        load = load.max(sent.into());
        // With the primary's socket full, sending through the low socket would hurt the primary next.
        if sent == SendResult::All {
            self.low.blocked = false;
            if self.low.unsent.is_some() || self.rlp_waits {
                load = load.max(self.send_low()?.into());
                // RLP may have given the primary something to send.
                if self.shared.with_later(&mut self.wakers, |state| state.core.wants_primary()) {
                    load = load.max(RemainingWork::Light);
                }
            }
        }
        Ok(load)
    }

    /// Handles what has arrived; returns the number of datagrams.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        let Self { shared, bound, primary, low, relays, inbox, wakers, read_at, .. } = self;
        // Not of this socket, whose turn they must not take.
        let others = take_mail(cx, shared, wakers, inbox) + relays.receive(cx, shared, wakers);
        if read_at.is_some_and(|at| shared.runtime.now() < at) {
            return Ok(others);
        }
        *read_at = None;
        let mut count = 0;
        while count < LIGHT_DATAGRAMS_MAX {
            match primary.receive(cx, shared, wakers, &bound.primary)? {
                0 => break,
                some => count += some,
            }
            wakers.drain(..).for_each(Waker::wake);
        }
        if let Some(socket) = &bound.low {
            count += low.receive(cx, shared, wakers, socket)?;
        }
        Ok(others + count)
    }

    #[cfg(feature = "metrics")]
    fn report(&mut self, now: Instant) {
        let (own, detours) = self.shared.with(|state| (state.report_metrics(now), state.restart.detours));
        let gauges = self.shared.member.report(own);
        let bound = self.shared.bound();
        let sockets = [Some(bound.primary.stats()), bound.low.as_ref().map(EndpointSocket::stats)];
        self.reporter.report(&gauges, sockets, detours, now);
        crate::metrics::report_handed_over(self.shared.member.take_handed_over());
    }

    /// Uses other sockets from here on. Datagrams in the old ones are lost, as on the path, unless they have one
    /// address: then another process takes the port over, or has returned it.
    fn rebind(&mut self, bound: Bound) {
        self.queue_limit = queue_limit(&bound, &self.shared);
        let address = |bound: &Bound| bound.primary.local_addr().ok();
        let moved = address(&bound) != address(&self.bound);
        self.bound = bound;
        self.primary.faults.on_success();
        self.low.faults.on_success();
        if moved {
            self.primary = Channel::default();
            self.low = Channel::default();
        }
    }

    fn send_primary(&mut self) -> io::Result<SendResult> {
        let Self { shared, bound, primary, burst, rlp_waits, wakers, .. } = self;
        let segments_max = bound.primary.segments_max().min(PRIMARY_SEGMENTS_MAX);
        for _ in 0..PRIMARY_BATCHES_MAX {
            let segments = (*burst).min(segments_max);
            let poll = |state: &mut EndpointState, buf: &mut Vec<u8>| {
                let now = state.runtime.now();
                let transmit = state.core.poll_primary(now, segments, buf);
                *rlp_waits = transmit.is_none() && state.core.wants_rlp();
                transmit
            };
            let sent = primary.send(shared, wakers, &bound.primary, poll)?;
            shared.member.set_sending_primary(sent != SendResult::All);
            match sent {
                SendResult::More => *burst = (*burst * 2).min(PRIMARY_SEGMENTS_MAX),
                SendResult::All => {
                    *burst = PRIMARY_SEGMENTS_FIRST;
                    return Ok(SendResult::All);
                }
                SendResult::Blocked => return Ok(SendResult::Blocked),
            }
        }
        Ok(SendResult::More)
    }

    fn send_low(&mut self) -> io::Result<SendResult> {
        let Self { shared, bound, low, queue_limit, wakers, rlp_turn, .. } = self;
        let socket = bound.low();
        let segments_max = socket.segments_max();
        for _ in 0..LOW_BATCHES_MAX {
            if let Some(sent) = rlp_turn.wait_for_primaries(&shared.member) {
                low.blocked = sent == SendResult::Blocked;
                return Ok(sent);
            }
            if !queue_limit.admit(socket.queued_bytes()) {
                low.blocked = true;
                return Ok(SendResult::Blocked);
            }
            let segments = queue_limit.segments.min(segments_max);
            let poll = |state: &mut EndpointState, buf: &mut Vec<u8>| {
                let now = state.runtime.now();
                state.core.poll_rlp(now, segments, buf)
            };
            match low.send(shared, wakers, socket, poll)? {
                SendResult::More => {}
                end => return Ok(end),
            }
        }
        Ok(SendResult::More)
    }

    /// Arms the wake-ups of the task, unless there is work at once.
    fn sleep(&mut self, cx: &mut Context<'_>) -> io::Result<Next> {
        let retry = self.shared.runtime.now() + RETRY_AFTER;
        let mut deadline = None;
        if self.primary.blocked {
            deadline = Some(retry);
            // An application's socket may fail to wait; the timer does not.
            if let Poll::Ready(Ok(())) = self.bound.primary.poll_writable(cx) {
                return Ok(Next::Round);
            }
        } else if self.low.blocked {
            deadline = Some(retry);
        }
        if self.shared.member.has_failed() {
            return Ok(Next::End);
        }
        let (asleep, over, due) = self
            .shared
            .with(|state| (state.requests.sleep(cx.waker()), state.is_over(), state.core.poll_timeout()));
        if over {
            self.ended = true;
            return Ok(Next::End);
        }
        if !asleep {
            return Ok(Next::Round);
        }
        let faults = [self.primary.faults.retry_at, self.low.faults.retry_at];
        let deadline = [deadline, due, self.read_at].into_iter().chain(faults).flatten().min();
        let deadline = deadline.unwrap_or_else(|| if self.armed > retry { self.armed } else { retry + FAR });
        if deadline != self.armed {
            self.armed = deadline;
            self.timer.as_mut().reset(deadline);
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
                tracing::debug!("the last connection has ended, and no handle to the endpoint exists");
                Poll::Ready(())
            }
            Err(error) => {
                tracing::error!(%error, "a socket is unusable, the endpoint ends");
                self.shared.with(|state| state.lifetime.fail(&error));
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        #[cfg(feature = "metrics")]
        self.report(self.shared.runtime.now());
        self.shared.member.set_sending_primary(false);
        if !self.ended {
            self.shared.member.fail();
        }
        self.shared.with(|state| state.on_driver_lost(&self.shared.waiters));
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// RLP of all workers together leaves no more in the kernel than that of one would.
fn queue_limit(bound: &Bound, shared: &Shared) -> QueueLimit {
    QueueLimit::new(bound.low().capabilities().send_buffer / shared.member.workers())
}

/// What follows some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There is more work at once.
    Round,
    /// Sleep until something wakes the task.
    Sleep,
    /// The driver ends.
    End,
}

/// The remaining work after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RemainingWork {
    /// Nothing.
    None,
    /// Little, perhaps nothing: worth another check.
    Light,
    /// Much. Other tasks should run, to take what arrived or to write more.
    Heavy,
}

impl From<SendResult> for RemainingWork {
    fn from(sent: SendResult) -> Self {
        if sent == SendResult::More { Self::Heavy } else { Self::None }
    }
}
