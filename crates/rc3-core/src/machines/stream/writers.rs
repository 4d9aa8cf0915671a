//! Writers: the room that each of them has in the send window, and when a blocked one is woken.

use super::{send::SendStream, set::Streams};
use crate::{quic::StreamId, structures::blocked_writers::Lacking};

/// Room in the send window at which blocked writers are woken, as a fraction of it.
const WAKE_FRACTION: u64 = 8;

/// Bytes that each step of priority may store beyond the send window, so that the bytes of lower priorities, which fill
/// the window of a path they wait for, do not delay a write of a higher one.
const PRIORITY_ROOM: u64 = 64 << 10;
/// Higher priorities have no more room than this one.
const PRIORITY_ROOM_STEPS: i32 = 8;

/// The room that writers have now, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendRoom {
    /// Upper bound of bytes stored for sending, over all streams.
    pub(crate) window: u64,
    /// The same of one stream.
    pub(crate) stream_window: u64,
    /// Bytes stored now.
    pub(crate) stored: u64,
    /// The upper bound for streams that the peer reads: what others store in vain takes no room from them.
    pub(crate) window_beside: u64,
}

impl SendRoom {
    /// Bytes that a write on this stream may store now.
    pub(crate) fn of_stream(&self, stream: &SendStream) -> u64 {
        self.room(stream).min(self.own_room(stream))
    }

    /// What a write of `least` bytes waits for.
    fn lacking(&self, stream: &SendStream, least: u64) -> Option<Lacking> {
        let step = step(stream.priority);
        if self.own_room(stream) < least {
            Some(Lacking::Own)
        } else if self.room(stream) < least {
            Some(Lacking::Shared(step))
        } else {
            None
        }
    }

    /// What a writer lacks before it is worth waking.
    fn lacks_to_wake(&self, stream: &SendStream) -> Option<Lacking> {
        self.lacking(stream, self.worth_waking(step(stream.priority)))
    }

    /// Room at which a writer is worth waking: all that a prioritized one gets may be its room beyond the window.
    fn worth_waking(&self, step: u64) -> u64 {
        let window = self.window.min(self.stream_window);
        let room = if step > 0 { window.min(PRIORITY_ROOM) } else { window };
        (room / WAKE_FRACTION).max(1)
    }

    /// Room in the window that a stream shares with the others.
    fn room(&self, stream: &SendStream) -> u64 {
        let step = step(stream.priority);
        if stream.unwanted_bytes() == 0 { self.shared_room(step) } else { self.room_in(self.window, step) }
    }

    /// The same of streams with this step of priority that the peer reads.
    fn shared_room(&self, step: u64) -> u64 {
        self.room_in(self.window_beside, step)
    }

    fn room_in(&self, window: u64, step: u64) -> u64 {
        window.saturating_add(PRIORITY_ROOM * step).saturating_sub(self.stored)
    }

    fn own_room(&self, stream: &SendStream) -> u64 {
        self.stream_window.saturating_sub(stream.held().bytes)
    }
}

impl Streams {
    /// Remembers a writer that has found no room.
    pub(crate) fn block_writer(&mut self, id: StreamId, room: &SendRoom) {
        if let Some(lacking) = self.send(id).and_then(|stream| room.lacking(stream, 1)) {
            self.blocked.insert(id, lacking);
        }
    }

    /// Whether any writer is blocked.
    pub(crate) fn is_any_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Writers that have room again, each once.
    pub(crate) fn take_unblocked(&mut self, room: &SendRoom) -> Vec<StreamId> {
        let mut blocked = std::mem::take(&mut self.blocked);
        let has_room = |step| room.shared_room(step) >= room.worth_waking(step);
        let lacks = |id| self.send(id).and_then(|stream| room.lacks_to_wake(stream));
        let unblocked = blocked.take_ready(has_room, lacks);
        self.blocked = blocked;
        unblocked
    }

    /// The priority of a stream, and with it its room, has changed. Returns whether its writer is no longer blocked.
    pub(crate) fn review_writer(&mut self, id: StreamId, room: &SendRoom) -> bool {
        if !self.blocked.remove(id) {
            return false;
        }
        let lacking = self.send(id).and_then(|stream| room.lacks_to_wake(stream));
        if let Some(lacking) = lacking {
            self.blocked.insert(id, lacking);
        }
        lacking.is_none()
    }
}

/// The step of room beyond the send window that this priority has.
fn step(priority: i32) -> u64 {
    priority.clamp(0, PRIORITY_ROOM_STEPS).unsigned_abs().into()
}
