//! Streams that nobody reads for a while, such as files that wait for consent. Their bytes must not use up the credit that
//! the other streams of the connection share: what has arrived is taken from the primary, and the peer pauses.

use std::time::{Duration, Instant};

use super::Connection;
use crate::{
    quic::{StreamId, VarInt},
    wire::control::ControlFrame,
};

/// A reader that is late by this many round trips, and by this time, is not waited for: the peer has used its credit then.
const ROUND_TRIPS: u32 = 2;
/// A busy application is as late without having stopped.
const LATE: Duration = Duration::from_millis(50);

impl Connection {
    /// Sets the time to look for streams without a reader, at either end.
    pub(super) fn await_readers(&mut self, now: Instant) {
        let waits = self.streams.is_reader_awaited() || self.streams.is_any_blocked();
        if waits && self.schedule.look_at.is_none() && self.life.lost.is_none() {
            self.schedule.look_at = Some(now + self.primary.rtt() * ROUND_TRIPS + LATE);
        }
    }

    /// Looks for streams that nobody has read since the last time: lets the peer pause those that come from it, and lets the
    /// bytes of those that it refuses take no room from others.
    pub(super) fn look_for_readers(&mut self, now: Instant) {
        if self.schedule.look_at.is_none_or(|at| at > now) {
            return;
        }
        self.schedule.look_at = None;
        if self.life.lost.is_some() {
            return;
        }
        self.streams.find_stuck();
        // A plain peer would only send more of it.
        if self.overlay.is_none() {
            return;
        }
        for id in self.streams.find_unread() {
            self.pull(id);
            self.pause(id, true);
        }
    }

    /// Lets the peer pause a stream, or go on.
    pub(super) fn pause(&mut self, id: StreamId, paused: bool) {
        self.send_control(ControlFrame::Pause { stream: VarInt::from(id).into_inner(), paused });
    }
}
