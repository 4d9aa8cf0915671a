//! What a connection has beside the primary when both sides speak rc3: the RLP loop, the control stream, credit
//! in both directions, SACKs that are due.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    config::{RlpMode, TransportConfig},
    laws::window::WindowTuner,
    machines::rlp::{Rlp, arrivals::Arrivals, openers::Openers},
    quic::{StreamId, VarInt},
    units::Level,
    wire::{
        control::{ControlDecoder, ControlFrame, INITIAL_CREDIT, Settings},
        varint::VARINT_MAX,
    },
};

/// Streams that ended early and whose use of credit the peer has not reported yet. A peer reports each when it
/// resets it, so few are open at any time; it never reports one that it had finished when it heard of the end.
const UNREPORTED_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Overlay {
    /// What sends. `None` until there are keys: of the handshake, or on clients of early data.
    pub(crate) rlp: Option<Rlp>,
    pub(crate) openers: Openers,
    /// The stream our control frames go out on.
    pub(crate) control: Option<StreamId>,
    pub(crate) decoder: ControlDecoder,
    pub(crate) allowed: Allowed,
    pub(crate) granting: Granting,
    /// Streams whose RLP data wants a SACK.
    pub(crate) sacks: BTreeMap<StreamId, SackDue>,
    /// When RLP's datagrams came.
    pub(crate) arrivals: Arrivals,
    /// Whether we want to hear the same of ours.
    wants_arrivals: bool,
}

/// A SACK that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SackDue {
    /// The best level that the data came on.
    pub(crate) level: Level,
    /// All of what lies from there on is to be told, in as many SACKs as it takes; otherwise one is enough.
    pub(crate) from: Option<u64>,
}

/// Credit the peer has granted us.
#[derive(Debug)]
pub(crate) struct Allowed {
    /// Sum over streams of the highest offset sent by either loop may reach this.
    connection: u64,
    /// Where a new stream starts.
    pub(crate) stream_initial: u64,
    /// That sum.
    usage: u64,
}

/// Credit we grant.
#[derive(Debug)]
pub(crate) struct Granting {
    window: WindowTuner,
    window_max: u64,
    stream_window_max: u64,
    granted: u64,
    /// Bytes of all streams, past and present, that the application has read or will never want.
    consumed: u64,
    unreported: BTreeMap<StreamId, u64>,
}

impl Overlay {
    pub(crate) fn new(config: &TransportConfig) -> Self {
        Self {
            rlp: None,
            openers: Openers::default(),
            control: None,
            decoder: ControlDecoder::default(),
            allowed: Allowed { connection: INITIAL_CREDIT, stream_initial: INITIAL_CREDIT, usage: 0 },
            granting: Granting {
                window: config.rlp_tuner(),
                window_max: config.rlp_window,
                stream_window_max: config.rlp_stream_window,
                granted: config.rlp_tuner().window(),
                consumed: 0,
                unreported: BTreeMap::new(),
            },
            sacks: BTreeMap::new(),
            arrivals: Arrivals::default(),
            wants_arrivals: config.rlp == RlpMode::Guard,
        }
    }

    /// The first frame on the control stream.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            connection_credit: self.granting.window.window(),
            stream_credit: self.granting.stream_window(),
            arrivals: self.wants_arrivals,
        }
    }

    /// RLP data came on `stream` at `level`: a SACK is due at the best level seen since the last.
    pub(crate) fn owe_sack(&mut self, stream: StreamId, level: Level) {
        let due = self.sacks.entry(stream).or_insert(SackDue { level, from: None });
        due.level = due.level.min(level);
    }
}

impl Allowed {
    /// A larger limit for the connection; smaller ones are old news. Whether there is credit now and was none: only
    /// then did a stream wait for it.
    pub(crate) fn raise(&mut self, connection: u64) -> bool {
        let used_up = self.left() == 0;
        self.connection = self.connection.max(connection);
        used_up && self.left() > 0
    }

    pub(crate) fn on_usage(&mut self, more: u64) {
        self.usage += more;
    }

    /// How far the highest offsets may still grow.
    pub(crate) fn left(&self) -> u64 {
        self.connection.saturating_sub(self.usage)
    }
}

impl Granting {
    /// The limit a new stream starts with.
    pub(crate) fn stream_window(&self) -> u64 {
        self.stream_window_max.min(self.window.window())
    }

    /// What may be held in all, when the window has grown as far as it may.
    pub(crate) fn window_max(&self) -> u64 {
        self.window_max
    }

    /// Lets the window follow what the application has read by `now`; its new size if it has grown.
    pub(crate) fn tune(&mut self, now: Instant, rtt: Duration) -> Option<u64> {
        self.window.on_moved(now, self.consumed, rtt).then(|| self.window.window())
    }

    /// The application has read `bytes`.
    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        // A peer may report any number; what is held is bounded by `window_max` whatever it says.
        self.consumed = self.consumed.saturating_add(bytes).min(VARINT_MAX - self.window_max);
    }

    /// A stream ended early with `consumed` bytes counted; the peer will say how much credit it had used.
    pub(crate) fn on_ended_early(&mut self, stream: StreamId, consumed: u64) {
        // The oldest is given up: its credit is lost to the peer, which could have reported it.
        if self.unreported.len() == UNREPORTED_MAX {
            self.unreported.pop_first();
        }
        self.unreported.insert(stream, consumed);
    }

    /// The peer's report for a stream that is gone here already.
    pub(crate) fn on_reported(&mut self, stream: StreamId, used: u64) {
        if let Some(counted) = self.unreported.remove(&stream) {
            self.on_used(used, counted);
        }
    }

    /// A stream of which `counted` bytes were counted as consumed had used this much credit when it ended.
    pub(crate) fn on_used(&mut self, used: u64, counted: u64) {
        match used.checked_sub(counted) {
            Some(more) => self.on_consumed(more),
            // It was granted whole and ended early. What was granted too much stays until it is used up.
            None => self.consumed = self.consumed.saturating_sub(counted - used),
        }
    }

    /// A new limit for the connection, once worth a frame.
    pub(crate) fn next_grant(&mut self) -> Option<ControlFrame> {
        let window = self.window.window();
        let limit = self.consumed + window;
        if limit.saturating_sub(self.granted) < window / 4 {
            return None;
        }
        self.granted = limit;
        Some(ControlFrame::MaxRlpData(limit))
    }

    /// A new limit for one stream, once worth a frame.
    pub(crate) fn next_stream_grant(
        &self,
        stream: StreamId,
        consumed: u64,
        granted: &mut u64,
    ) -> Option<ControlFrame> {
        let window = self.stream_window();
        let limit = consumed + window;
        if limit.saturating_sub(*granted) < window / 4 {
            return None;
        }
        *granted = limit;
        Some(ControlFrame::MaxRlpStreamData { stream: VarInt::from(stream).into_inner(), limit })
    }

    /// The limit of a stream that is read in any order: its size, unless it was granted that much.
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
