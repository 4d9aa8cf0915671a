//! What a connection holds and has promised, and how much more each loop may bring. `structures/held.rs` counts, the
//! endpoint divides (`laws/shares.rs`).

use super::Connection;
use crate::{
    laws::shares::{FLOOR, Use},
    structures::held::PROMISE_COST,
};

/// Bytes that the primary may bring at a time when memory is short: its credit grows by as much before it can be lowered.
const STEP_MIN: u64 = 4 << 10;

impl Connection {
    /// Sets the memory that the connection may claim.
    pub(crate) fn set_share(&mut self, bytes: u64) {
        self.share = bytes;
    }

    /// The claim at the last [`Self::recount`].
    pub(crate) fn counted(&self) -> u64 {
        self.sched.counted.claimed
    }

    /// Memory use: at the last call, and now.
    pub(crate) fn recount(&mut self) -> (Use, Use) {
        let current = Use { held: self.peer_memory(), claimed: self.claim() };
        (std::mem::replace(&mut self.sched.counted, current), current)
    }

    /// Bytes of memory that the peer uses.
    fn peer_memory(&self) -> u64 {
        self.received_held.all.total() + self.streams.sending().overhead
    }

    /// The same, what is stored for sending, and what the peer's primary may still send.
    fn claim(&self) -> u64 {
        let promised = if self.lost.is_some() { 0 } else { self.windows.offer.promised() };
        self.claim_without_promise().saturating_add(promised.saturating_mul(PROMISE_COST))
    }

    fn claim_without_promise(&self) -> u64 {
        self.peer_memory() + self.streams.sending().bytes
    }

    /// How much more may be claimed.
    fn claim_room(&self) -> u64 {
        self.share.saturating_sub(self.claim())
    }

    /// Upper bound of received and unread bytes of both loops.
    fn received_max(&self) -> u64 {
        self.windows.received_max(self.streams.receiving())
    }

    /// Upper bound of these bytes before RLP brings no more.
    pub(super) fn rlp_part(&self) -> u64 {
        self.windows.rlp_part(self.received_max())
    }

    /// Bytes that RLP may bring: more is refused, and the primary brings it.
    pub(super) fn rlp_room(&self) -> u64 {
        let room = self.rlp_part().saturating_sub(self.received_held.all.bytes);
        room.min(self.claim_room() / PROMISE_COST)
    }

    /// Bytes that the primary may bring, granted ones included. Its share never falls below the floor: what RLP brought
    /// and the application cannot read yet waits for the primary.
    pub(super) fn primary_room(&self) -> u64 {
        let shared = self.share.saturating_sub(self.claim_without_promise()) / PROMISE_COST;
        let floor = FLOOR.saturating_sub(self.received_held.unread_of_primary());
        self.primary_room_alone().min(shared.max(floor))
    }

    /// The same, whatever other connections hold.
    pub(super) fn primary_room_alone(&self) -> u64 {
        self.received_max().saturating_sub(self.received_held.all.bytes)
    }

    /// Bytes to take from the primary at a time: as many as leave room for its whole window.
    pub(super) fn primary_step(&self) -> u64 {
        let room = self.primary_room();
        room.saturating_sub(self.windows.receive(u64::MAX)).max(STEP_MIN)
    }

    /// Overhead that the primary may cause, beyond what its bytes pay for.
    pub(super) fn primary_overhead_max(&self) -> u64 {
        let max = self.config.overhead_max;
        if self.claim() > self.share { max.min(FLOOR) } else { max }
    }

    /// How much more SACKs may use.
    pub(super) fn overhead_room(&self) -> u64 {
        let room = self.streams.sending().overhead_room(self.config.overhead_max).unwrap_or(0);
        room.min(self.claim_room())
    }

    /// Bytes that may be stored for sending within the share.
    pub(super) fn store_room(&self) -> u64 {
        let others = self.claim() - self.streams.sending().bytes;
        self.share.saturating_sub(others).max(FLOOR)
    }
}
