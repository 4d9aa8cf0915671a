//! The application that sends a flow.

use std::{sync::LazyLock, time::Instant};

use bytes::Bytes;
use rc3_core::{Connection, ConnectionHandle, Dir, Endpoint, StreamId, VarInt, WriteError};

use crate::agent::{Flow, Milestone, SenderCounters, Writes};

/// Bytes of a write at most.
const WRITE: usize = 1 << 18;

/// What flows are made of. Memory that nothing was ever written to: the system maps all of it to one page of zeros, which
/// stays in the cache, as constants of the program would not.
static CONTENT: LazyLock<&'static [u8]> = LazyLock::new(|| vec![0; WRITE].leak());

/// Writes one stream at the times of its application, and closes the connection once all bytes have arrived.
pub(super) struct StreamWriter {
    bytes: u64,
    writes: Writes,
    /// When the application gives up, if it has a limit.
    pub(super) until: Option<Instant>,
    stream: Option<StreamId>,
    began: Option<Instant>,
    written: u64,
    finished: bool,
    over: bool,
}

impl StreamWriter {
    pub(super) fn new(now: Instant, flow: &Flow) -> Self {
        Self {
            until: flow.writes.until(now),
            bytes: flow.bytes,
            writes: flow.writes,
            stream: None,
            began: None,
            written: 0,
            finished: false,
            over: false,
        }
    }

    pub(super) fn connected(&mut self, now: Instant, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        self.began = Some(now);
        self.stream = endpoint.with_connection(now, handle, |connection| connection.open(Dir::Uni)).flatten();
        self.write(now, endpoint, handle);
    }

    /// Writes what is due and finds room.
    pub(super) fn write(&mut self, now: Instant, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        let (Some(stream), false) = (self.stream, self.finished || self.over) else { return };
        let due = self.due(now);
        let done = endpoint.with_connection(now, handle, |connection| {
            let written = fill(connection, stream, due.saturating_sub(self.written));
            self.written += written;
            self.written == self.bytes && connection.finish(stream).is_ok()
        });
        self.finished = done.unwrap_or(false);
    }

    /// Gives up, if it is time and not all has arrived.
    pub(super) fn give_up(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
    ) -> Option<Milestone> {
        if self.over || self.until.is_none_or(|until| now < until) {
            return None;
        }
        endpoint.with_connection(now, handle, |connection| {
            connection.close(now, VarInt::from_u32(0), Bytes::new());
        });
        self.over = true;
        Some(Milestone::Failed)
    }

    /// When the application has more to write, after `now`; what found no room by then waits for
    /// [`rc3_core::Event::Writable`].
    pub(super) fn next_write(&self, now: Instant) -> Option<Instant> {
        let Writes::Chunked { every, .. } = self.writes else { return None };
        let began = self.began.filter(|_| self.written < self.bytes && !self.over)?;
        let chunks = (now - began).as_nanos() / every.as_nanos().max(1);
        Some(began + every * (chunks as u32 + 1))
    }

    /// All has arrived.
    pub(super) fn finished(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
    ) -> Milestone {
        let sent = endpoint.connection(handle).map(|connection| {
            let stats = connection.stats();
            SenderCounters {
                lost_packets: stats.path.lost_packets,
                primary_packets: stats.path.sent_packets,
                rlp_packets: stats.sent.levels.iter().map(|level| level.packets).sum(),
                guard: stats.guard,
            }
        });
        endpoint.with_connection(now, handle, |connection| {
            connection.close(now, VarInt::from_u32(0), Bytes::new());
        });
        self.over = true;
        Milestone::LastAck(sent.unwrap_or_default())
    }

    /// The connection is gone; that is a failure unless all had arrived.
    pub(super) fn lost(&mut self) -> Option<Milestone> {
        let failed = !self.over;
        self.over = true;
        failed.then_some(Milestone::Failed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Bytes that the application has had to write by now.
    fn due(&self, now: Instant) -> u64 {
        self.began.map_or(self.bytes, |began| self.bytes.min(self.writes.written(now - began)))
    }
}

/// Writes up to `bytes`; how many found room.
fn fill(connection: &mut Connection, stream: StreamId, bytes: u64) -> u64 {
    let content: &'static [u8] = *CONTENT;
    let mut written = 0;
    while written < bytes {
        let len = (bytes - written).min(WRITE as u64) as usize;
        match connection.write(stream, Bytes::from_static(&content[..len])) {
            Ok(taken) => written += taken as u64,
            Err(WriteError::Blocked) => break,
            Err(error) => panic!("the sender's own stream: {error}"),
        }
    }
    written
}
