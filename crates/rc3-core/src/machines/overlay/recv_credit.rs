//! The credit of the peer's RLP loop: bytes that the application has read open the window again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    config::TransportConfig,
    laws::window::WindowTuner,
    quic::{StreamId, VarInt},
    wire::{control::ControlFrame, varint::VARINT_MAX},
};

/// Streams that ended early and whose use of credit the peer has not reported yet. A peer reports each when it resets
/// it, so few are open at any time; it never reports one that it had already finished.
const UNREPORTED_MAX: usize = 1024;

/// Credit granted to the peer.
#[derive(Debug)]
pub(crate) struct RecvCredit {
    window: WindowTuner,
    /// Bytes that the connection leaves to RLP.
    left_to_rlp: u64,
    /// Upper bound of stored bytes, when the window has grown to its maximum.
    pub(crate) window_max: u64,
    /// The limit that a stream starts with, and its distance from what was read. The connection's bounds all of them.
    pub(crate) stream_window: u64,
    granted: u64,
    /// Bytes of all streams, past and present, that the application has read or will never read.
    consumed: u64,
    unreported: BTreeMap<StreamId, u64>,
}

impl RecvCredit {
    /// The windows of `config`, unused, with at most `room` bytes at first.
    pub(super) fn new(config: &TransportConfig, room: u64) -> Self {
        let window = config.rlp_tuner(room);
        Self {
            granted: window.window,
            window,
            left_to_rlp: u64::MAX,
            window_max: config.rlp_window,
            stream_window: config.rlp_stream_max(),
            consumed: 0,
            unreported: BTreeMap::new(),
        }
    }

    /// The initial limit of the connection, and its distance from what was read.
    pub(super) fn window(&self) -> u64 {
        self.window.window.min(self.left_to_rlp)
    }

    /// RLP may bring `room` bytes: the window is at least what it would have started with.
    pub(crate) fn raise(&mut self, config: &TransportConfig, room: u64) {
        self.left_to_rlp = self.left_to_rlp.max(room);
        self.window.raise(config.rlp_tuner(room).window);
    }

    /// Adapts the window to what the application has read by `now`, and to what the connection leaves to RLP; returns
    /// its new size if it has grown.
    pub(crate) fn tune(&mut self, now: Instant, rtt: Duration, left_to_rlp: u64) -> Option<u64> {
        self.left_to_rlp = left_to_rlp;
        self.window.on_moved(now, self.consumed, rtt).then_some(self.window.window)
    }

    /// The application has read `bytes`.
    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        // A peer may report any number; `window_max` bounds the stored bytes in any case.
        self.consumed = self.consumed.saturating_add(bytes).min(VARINT_MAX - self.window_max);
    }

    /// A stream ended early with `consumed` bytes counted; the peer will report how much credit it had used.
    pub(crate) fn on_ended_early(&mut self, stream: StreamId, consumed: u64) {
        // The oldest record is dropped: the peer loses its credit, which it could have reported.
        if self.unreported.len() == UNREPORTED_MAX {
            self.unreported.pop_first();
        }
        self.unreported.insert(stream, consumed);
    }

    /// The peer's report for a stream that has already ended here.
    pub(crate) fn on_reported(&mut self, stream: StreamId, used: u64) {
        if let Some(counted) = self.unreported.remove(&stream) {
            self.on_used(used, counted);
        }
    }

    /// A stream of which `counted` bytes were counted as consumed had used this much credit when it ended.
    pub(crate) fn on_used(&mut self, used: u64, counted: u64) {
        match used.checked_sub(counted) {
            Some(more) => self.on_consumed(more),
            // It was granted as a whole and ended early. The excess remains until it is used up.
            None => self.consumed = self.consumed.saturating_sub(counted - used),
        }
    }

    /// A new limit for the connection, once it is worth a frame.
    pub(crate) fn next_grant(&mut self) -> Option<ControlFrame> {
        let limit = worth_a_frame(self.consumed, self.window(), self.granted)?;
        self.granted = limit;
        Some(ControlFrame::MaxRlpData(limit))
    }

    /// A new limit for one stream, once it is worth a frame.
    pub(crate) fn next_stream_grant(
        &self,
        stream: StreamId,
        consumed: u64,
        granted: &mut u64,
    ) -> Option<ControlFrame> {
        let limit = worth_a_frame(consumed, self.stream_window, *granted)?;
        self.whole_stream_grant(stream, limit, granted)
    }

    /// The limit of a stream that is read in any order: its size, unless already granted.
    pub(crate) fn whole_stream_grant(
        &self,
        stream: StreamId,
        size: u64,
        granted: &mut u64,
    ) -> Option<ControlFrame> {
        if size <= *granted {
            return None;
        }
        *granted = size;
        Some(ControlFrame::MaxRlpStreamData { stream: VarInt::from(stream).into_inner(), limit: size })
    }
}

/// The limit of this window beyond what was consumed, if it exceeds the one granted before by a quarter of the window.
fn worth_a_frame(consumed: u64, window: u64, granted: u64) -> Option<u64> {
    let limit = consumed + window;
    (limit.saturating_sub(granted) >= (window / 4).max(1)).then_some(limit)
}
