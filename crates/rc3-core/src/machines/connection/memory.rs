//! What a connection holds and has promised, and how much more each loop may bring. `structures/held.rs` counts, the
//! endpoint divides (`laws/shares.rs`).

mod windows;

use std::time::Duration;

use self::windows::Windows;
use crate::{
    config::TransportConfig,
    laws::shares::{FLOOR, Shares, Use},
    machines::stream::{
        recv::{PullBounds, RlpRoom},
        set::Streams,
        writers::SendRoom,
    },
    quic::Side,
    structures::held::PROMISE_COST,
};

/// Bytes that the primary may bring at a time when memory is short: its credit grows by as much before it can be lowered.
const STEP_MIN: u64 = 4 << 10;

/// The limits of a connection's memory. What it uses is counted by its [`Streams`].
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) windows: Windows,
    /// Memory that the connection may claim, as set by the endpoint.
    share: u64,
    /// Memory use as counted by the endpoint.
    counted: Use,
    /// [`TransportConfig::overhead_max`].
    overhead_max: u64,
    /// The longest datagram of the primary so far: its payload is in buffers of that length.
    pub(super) datagram_len_max: usize,
    /// The connection is lost: the peer sends nothing more.
    pub(super) ended: bool,
}

impl Memory {
    /// The primary's receive window starts with at most `initial` bytes.
    pub(super) fn new(config: &TransportConfig, side: Side, initial: u64) -> Self {
        Self {
            windows: Windows::new(config, side, initial),
            share: u64::MAX,
            counted: Use::default(),
            overhead_max: config.overhead_max,
            datagram_len_max: 0,
            ended: false,
        }
    }

    /// The connection may claim what `shares` leave to it.
    pub(super) fn take_share(&mut self, shares: &Shares) {
        self.share = shares.of_one(self.counted.claimed);
    }

    /// A datagram of the primary arrived.
    pub(super) fn on_datagram(&mut self, len: usize) {
        self.datagram_len_max = self.datagram_len_max.max(len);
    }

    /// Memory use: at the last call, and now.
    pub(super) fn recount(&mut self, streams: &Streams) -> (Use, Use) {
        let current = Use { held: peer_memory(streams), claimed: self.claimed_bytes(streams) };
        (std::mem::replace(&mut self.counted, current), current)
    }

    /// Memory that the peer uses, what is stored for sending, and what the peer's primary may still send.
    fn claimed_bytes(&self, streams: &Streams) -> u64 {
        let promised = if self.ended { 0 } else { self.windows.offer.promised() };
        claim_without_promise(streams).saturating_add(promised.saturating_mul(PROMISE_COST))
    }

    /// How much more may be claimed.
    fn claim_room(&self, streams: &Streams) -> u64 {
        self.share.saturating_sub(self.claimed_bytes(streams))
    }

    /// Bytes that RLP may bring: more is refused, and the primary brings it.
    pub(super) fn rlp_room(&self, streams: &Streams) -> u64 {
        let room = self.windows.rlp_part().saturating_sub(streams.received.all.bytes);
        room.min(self.claim_room(streams) / PROMISE_COST)
    }

    /// The limits for RLP data, with at most `window` bytes of it.
    pub(super) fn rlp_limits(&self, streams: &Streams, window: u64) -> RlpRoom {
        let held = streams.received.all;
        RlpRoom {
            bytes: window.saturating_sub(held.bytes).min(self.rlp_room(streams)),
            stream: self.windows.stream_receive,
            held,
            overhead_max: self.overhead_max,
        }
    }

    /// Bytes that the primary may bring, granted ones included. Its share never falls below the floor: what RLP brought
    /// and the application cannot read yet waits for the primary.
    fn primary_room(&self, streams: &Streams) -> u64 {
        let shared = self.share.saturating_sub(claim_without_promise(streams)) / PROMISE_COST;
        let floor = FLOOR.saturating_sub(streams.received.unread_of_primary());
        self.primary_room_alone(streams).min(shared.max(floor))
    }

    /// The same, whatever other connections hold.
    fn primary_room_alone(&self, streams: &Streams) -> u64 {
        self.windows.received_max().saturating_sub(streams.received.all.bytes)
    }

    /// The limits for taking the primary's data: at a time as much as leaves room for its whole window.
    pub(super) fn pull_bounds(&self, streams: &Streams) -> PullBounds {
        PullBounds {
            room: self.primary_room_alone(streams),
            stream: self.windows.stream_receive,
            step: self.primary_room(streams).saturating_sub(self.windows.receive()).max(STEP_MIN),
        }
    }

    /// What the primary should offer the peer from now on, if that differs enough: its window, within memory. Bytes
    /// read out of order count as consumed for quinn-proto, and those that wait behind a missing one would be stored in
    /// addition to whole windows. A missing byte itself never waits for credit: later ones have used it.
    pub(super) fn next_offer(&mut self, streams: &Streams) -> Option<u64> {
        let window = self.windows.receive();
        let offer = window.min(self.primary_room(streams));
        self.windows.offer.change(offer, window)
    }

    /// Whether the peer's primary causes more overhead than its bytes pay for.
    pub(super) fn is_primary_hostile(&self, streams: &Streams) -> bool {
        let max = self.overhead_max;
        let free = if self.claimed_bytes(streams) > self.share { max.min(FLOOR) } else { max };
        streams.received.is_hostile(free)
    }

    /// How much more SACKs may use.
    pub(super) fn overhead_room(&self, streams: &Streams) -> u64 {
        let room = streams.sending.overhead_room(self.overhead_max).unwrap_or(0);
        room.min(self.claim_room(streams))
    }

    /// The room of writers on a path with this least round-trip time.
    pub(super) fn send_room(&self, streams: &Streams, min_rtt: Duration) -> SendRoom {
        let stored = streams.sending.bytes;
        let others = self.claimed_bytes(streams) - stored;
        let shared = self.share.saturating_sub(others).max(FLOOR);
        let window = self.windows.store(min_rtt);
        // The bytes of streams that the peer does not read take no room from others, up to once more the window.
        let beside = window.saturating_add(streams.unwanted.min(window));
        SendRoom {
            window: window.min(shared),
            window_beside: beside.min(shared),
            stream_window: self.windows.stream_send,
            stored,
        }
    }
}

/// Bytes of memory that the peer uses.
fn peer_memory(streams: &Streams) -> u64 {
    streams.received.all.total() + streams.sending.overhead
}

fn claim_without_promise(streams: &Streams) -> u64 {
    peer_memory(streams) + streams.sending.bytes
}
