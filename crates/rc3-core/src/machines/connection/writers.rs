//! Writers: the room that each of them has in the send window, and when a blocked one is woken.

use std::mem;

use super::Connection;
use crate::{
    event::Event, machines::stream::send::SendStream, quic::StreamId, structures::blocked_writers::Lacking,
};

/// Room in the send window at which blocked writers are woken, as a fraction of it.
const WAKE_FRACTION: u64 = 8;

/// Bytes that each step of priority may store beyond the send window, so that the bytes of lower priorities, which fill
/// the window of a path they wait for, do not delay a write of a higher one.
const PRIORITY_ROOM: u64 = 64 << 10;
/// Higher priorities have no more room than this one.
const PRIORITY_ROOM_STEPS: i32 = 8;

impl Connection {
    /// Bytes that a write on this stream may store now.
    pub(super) fn write_room(&self, stream: &SendStream) -> u64 {
        self.shared_room(step(stream.priority)).min(self.own_room(stream))
    }

    /// Remembers a writer that has found no room.
    pub(super) fn block_writer(&mut self, id: StreamId) {
        if let Some(lacking) = self.streams.send(id).and_then(|stream| self.lacking(stream, 1)) {
            self.blocked_writers.insert(id, lacking);
        }
    }

    /// Reports writers that have room again.
    pub(super) fn wake_writers(&mut self) {
        if self.blocked_writers.is_empty() {
            return;
        }
        let mut blocked = mem::take(&mut self.blocked_writers);
        let has_room = |step| self.shared_room(step) >= self.room_to_wake(step);
        let woken = blocked.take_ready(has_room, |id| self.lacks_to_wake(id));
        self.blocked_writers = blocked;
        self.events.extend(woken.into_iter().map(Event::Writable));
    }

    /// The priority of a stream, and with it its room, has changed.
    pub(super) fn review_writer(&mut self, id: StreamId) {
        if self.blocked_writers.remove(id) {
            match self.lacks_to_wake(id) {
                Some(lacking) => self.blocked_writers.insert(id, lacking),
                None => self.events.push_back(Event::Writable(id)),
            }
        }
    }

    /// Removes a stream's sending side. A writer that waits for room on it finds that out.
    pub(super) fn remove_send(&mut self, id: StreamId) -> Option<SendStream> {
        let stream = self.streams.remove_send(id);
        if self.blocked_writers.remove(id) {
            self.events.push_back(Event::Writable(id));
        }
        stream
    }

    /// What a writer lacks before it is worth waking.
    fn lacks_to_wake(&self, id: StreamId) -> Option<Lacking> {
        let stream = self.streams.send(id)?;
        self.lacking(stream, self.room_to_wake(step(stream.priority)))
    }

    /// What a write of `least` bytes waits for.
    fn lacking(&self, stream: &SendStream, least: u64) -> Option<Lacking> {
        let step = step(stream.priority);
        if self.own_room(stream) < least {
            Some(Lacking::Own)
        } else if self.shared_room(step) < least {
            Some(Lacking::Shared(step))
        } else {
            None
        }
    }

    /// Room at which a writer is worth waking: all that a prioritized one gets may be its room beyond the window.
    fn room_to_wake(&self, step: u64) -> u64 {
        let window = self.stored_max().min(self.windows.stream_send);
        let room = if step > 0 { window.min(PRIORITY_ROOM) } else { window };
        (room / WAKE_FRACTION).max(1)
    }

    fn shared_room(&self, step: u64) -> u64 {
        let window = self.stored_max().saturating_add(PRIORITY_ROOM * step);
        window.saturating_sub(self.streams.sending().bytes)
    }

    /// Upper bound of bytes stored for sending, over all streams.
    fn stored_max(&self) -> u64 {
        self.windows.store(self.primary.min_rtt()).min(self.store_room())
    }

    fn own_room(&self, stream: &SendStream) -> u64 {
        self.windows.stream_send.saturating_sub(stream.held().bytes)
    }
}

/// The step of room beyond the send window that this priority has.
fn step(priority: i32) -> u64 {
    priority.clamp(0, PRIORITY_ROOM_STEPS).unsigned_abs().into()
}
