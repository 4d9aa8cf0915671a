//! The result of one receive call: buffers, and the datagrams in them.
//!
//! The kernel fills a fixed number of slots, each large enough for the longest message. A message that fills a quarter
//! of its slot or more is handed out in place; from others, each datagram is copied. Datagrams that share a slot pin
//! each other, and a peer may cause one of each message to stay in some reassembly buffer. So slots in use elsewhere
//! are counted, and while there are [`LENT_MAX`] of them everything is copied.
//!
//! Invariant: slots from `next` up to `messages.len()` have one message each that was not taken completely.

use std::{
    collections::VecDeque,
    iter, mem,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use bytes::BytesMut;
use quinn_udp::RecvMeta as UdpMeta;

use super::{canonical, sys};

/// Messages per receive call. More gain little: at full speed each is a batch of its own.
pub const RECV_MESSAGES_MAX: usize = 32;

/// Room for the longest message, a joined batch just below 64 KiB.
pub(super) const SLOT_BYTES: usize = 1 << 16;

/// Messages of at least this length leave in their slot's memory.
const IN_PLACE_MIN: usize = SLOT_BYTES / 4;

/// Most slots in use elsewhere, 32 MiB in total: enough for a window of that size and a reader that keeps up with it.
const LENT_MAX: usize = 512;

/// How many lent slots are checked for each slot that is needed.
const LOOKS: usize = 4;

/// What the kernel reports about a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvMeta {
    /// The sender's address.
    pub remote: SocketAddr,
    /// The local address it was sent to, usable as the source of a reply; `None` if unknown or not a local address.
    pub local: Option<IpAddr>,
    /// Explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// If it arrived in fragments and the system reports enough: payload bytes of the leading one, without its IP
    /// header. [`super::LeadingLens`] says how reliable that is.
    pub leading_len: Option<u16>,
    /// When the system received it, not when it was read; `None` if the system does not report it. Datagrams that the
    /// kernel or the card has joined share the time of the last.
    pub arrived: Option<Instant>,
}

impl RecvMeta {
    /// A datagram of `remote` about which nothing else is known.
    pub(super) fn of(remote: SocketAddr) -> Self {
        let remote = canonical(remote);
        Self { remote, local: None, ecn: 0, dscp: 0, leading_len: None, arrived: None }
    }

    fn of_udp(meta: &UdpMeta) -> Self {
        Self {
            local: meta.dst_ip.map(|ip| ip.to_canonical()).filter(|ip: &IpAddr| !ip.is_unspecified()),
            ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
            ..Self::of(meta.addr)
        }
    }
}

/// One received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// What the kernel reports about it.
    pub meta: RecvMeta,
    /// Its payload, never empty. May share memory with its neighbours, see [`RecvBatch`].
    pub data: BytesMut,
}

/// The buffers of one receive call; make one per receiving task and reuse it.
///
/// Reserves [`RECV_MESSAGES_MAX`] x 64 KiB of address space, of which only the received part is touched. Datagrams that
/// are kept may pin 32 MiB more.
pub struct RecvBatch {
    pub(super) slots: Vec<BytesMut>,
    pub(super) messages: Vec<KernelMessage>,
    pub(super) scratch: sys::Scratch,
    next: usize,
    /// Bytes of the message at `next` that were taken.
    taken: usize,
    /// Slots that were lent when they were needed again.
    lent: VecDeque<BytesMut>,
}

/// One message of the kernel: datagrams of `stride` bytes each, the last possibly shorter, all with one `meta`.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelMessage {
    pub(super) meta: RecvMeta,
    pub(super) stride: usize,
}

impl RecvBatch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            slots: vec![BytesMut::new(); RECV_MESSAGES_MAX],
            messages: Vec::with_capacity(RECV_MESSAGES_MAX),
            scratch: sys::Scratch::default(),
            next: 0,
            taken: 0,
            lent: VecDeque::new(),
        }
    }

    /// Adds a message that quinn-udp has left in `bytes`, unless it is empty; returns the number of its datagrams. At most
    /// [`RECV_MESSAGES_MAX`] fit after [`Self::refill`].
    pub(super) fn push(&mut self, meta: &UdpMeta, bytes: &[u8]) -> usize {
        let bytes = &bytes[..meta.len.min(SLOT_BYTES)];
        if bytes.is_empty() {
            return 0;
        }
        let stride = meta.stride.clamp(1, bytes.len());
        self.slots[self.messages.len()].extend_from_slice(bytes);
        self.messages.push(KernelMessage { meta: RecvMeta::of_udp(meta), stride });
        bytes.len().div_ceil(stride)
    }

    /// The datagrams not yet taken, in the order of arrival. After an iterator is dropped early, another one continues.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram> {
        iter::from_fn(|| self.next_datagram())
    }

    fn next_datagram(&mut self) -> Option<Datagram> {
        let Self { slots, messages, next, taken, lent, .. } = self;
        loop {
            let KernelMessage { meta, stride } = *messages.get(*next)?;
            let slot = &mut slots[*next];
            let len = stride.min(slot.len() - *taken);
            if len == 0 {
                // All of it was taken, or it is empty and no packet.
                *next += 1;
                *taken = 0;
                continue;
            }
            // Decided with the first datagram of a message; taken bytes are gone from the slot.
            let in_place = *taken == 0
                && (slot.capacity() < SLOT_BYTES || (slot.len() >= IN_PLACE_MIN && lent.len() < LENT_MAX));
            let data = if in_place {
                slot.split_to(len)
            } else {
                *taken += len;
                BytesMut::from(&slot[*taken - len..*taken])
            };
            return Some(Datagram { meta, data });
        }
    }

    /// Empties all slots and gives each at least [`SLOT_BYTES`] of room.
    pub(super) fn refill(&mut self) {
        // The others are unchanged.
        let used = if self.slots[0].capacity() == 0 { RECV_MESSAGES_MAX } else { self.messages.len() };
        self.messages.clear();
        self.next = 0;
        self.taken = 0;
        let mut looks = (LOOKS * used).min(self.lent.len());
        for slot in &mut self.slots[..used] {
            slot.clear();
            if slot.try_reclaim(SLOT_BYTES) {
                continue;
            }
            let free = take_back(&mut self.lent, &mut looks);
            let held = mem::replace(slot, free.unwrap_or_else(|| BytesMut::with_capacity(SLOT_BYTES)));
            if held.capacity() > 0 {
                self.lent.push_back(held);
            }
        }
        // Free slots beyond these are not needed.
        looks = looks.min(LOOKS);
        while take_back(&mut self.lent, &mut looks).is_some() {}
    }
}

/// The next slot that is no longer lent, within this many checks.
fn take_back(lent: &mut VecDeque<BytesMut>, looks: &mut usize) -> Option<BytesMut> {
    while *looks > 0 {
        *looks -= 1;
        let mut slot = lent.pop_front()?;
        if slot.try_reclaim(SLOT_BYTES) {
            return Some(slot);
        }
        lent.push_back(slot);
    }
    None
}

impl Default for RecvBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecvBatch")
            .field("messages", &self.messages)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(messages: &[(usize, usize)]) -> RecvBatch {
        let mut batch = RecvBatch::new();
        batch.refill();
        fill(&mut batch, messages);
        batch
    }

    fn fill(batch: &mut RecvBatch, messages: &[(usize, usize)]) {
        for (index, &(len, stride)) in messages.iter().enumerate() {
            batch.slots[index].extend((0..len).map(|byte| byte as u8));
            let meta = RecvMeta::of(([127, 0, 0, 1], 9).into());
            batch.messages.push(KernelMessage { meta, stride });
        }
    }

    #[test]
    fn messages_are_split_at_their_stride() {
        let mut batch = batch(&[(10, 4), (0, 0), (5, 5), (3, 9), (40_000, 1_000)]);
        let datagrams: Vec<_> = batch.datagrams().map(|datagram| datagram.data).collect();
        let lens: Vec<_> = datagrams.iter().map(BytesMut::len).collect();
        assert_eq!(lens[..5], [4, 4, 2, 5, 3]);
        assert_eq!(lens[5..], [1_000; 40]);
        assert_eq!(datagrams[2][..], [8, 9]);
        assert_eq!(datagrams[6][..3], [232, 233, 234]);
    }

    #[test]
    fn an_iterator_left_early_is_continued_by_the_next() {
        let mut batch = batch(&[(4, 2), (1, 1)]);
        assert_eq!(batch.datagrams().next().unwrap().data[..], [0, 1]);
        assert_eq!(batch.datagrams().next().unwrap().data[..], [2, 3]);
        assert_eq!(batch.datagrams().count(), 1);
        assert_eq!(batch.datagrams().count(), 0);
    }

    #[test]
    fn a_released_slot_is_used_again_and_a_held_one_is_left_alone() {
        let mut batch = batch(&[(60_000, 1_200)]);
        let memory = batch.slots[0].as_ptr();
        assert_eq!(batch.datagrams().count(), 50);
        batch.refill();
        assert_eq!(batch.slots[0].as_ptr(), memory, "it was not lent");

        fill(&mut batch, &[(60_000, 1_200)]);
        let held = batch.datagrams().nth(1).unwrap().data;
        batch.refill();
        assert_ne!(batch.slots[0].as_ptr(), memory);
        fill(&mut batch, &[(60_000, 1_200)]);
        assert_eq!(held[0], (1_200 % 256) as u8);
        // Released at last, it serves as the next slot that is needed.
        let other = batch.datagrams().next().unwrap().data;
        drop(held);
        batch.refill();
        assert_eq!((batch.slots[0].as_ptr(), batch.lent.len()), (memory, 1));
        drop(other);
    }

    #[test]
    fn datagrams_of_a_short_message_pin_no_slot() {
        let mut batch = batch(&[(12_000, 1_200)]);
        let memory = batch.slots[0].as_ptr();
        let held: Vec<_> = batch.datagrams().map(|datagram| datagram.data).collect();
        assert!(held.len() == 10 && held.iter().all(|data| data.capacity() <= 1_200));
        batch.refill();
        assert_eq!(batch.slots[0].as_ptr(), memory);
    }

    #[test]
    fn one_datagram_kept_of_each_message_pins_a_bounded_number_of_slots() {
        let mut batch = RecvBatch::new();
        let mut kept = Vec::new();
        for nth in 0..3 * LENT_MAX {
            batch.refill();
            fill(&mut batch, &[(60_000, 1_200)]);
            let mut datagrams = batch.datagrams().map(|datagram| datagram.data);
            kept.push(datagrams.nth(nth % 50).unwrap());
            assert_eq!(datagrams.count(), 49 - nth % 50);
        }
        assert_eq!(batch.lent.len(), LENT_MAX);
        assert!(kept.iter().enumerate().all(|(nth, data)| data[0] == (nth % 50 * 1_200 % 256) as u8));
        // Memory that is no longer kept is freed.
        kept.clear();
        for _ in 0..LENT_MAX {
            batch.refill();
            fill(&mut batch, &[(60_000, 1_200)]);
            kept.extend(batch.datagrams().map(|datagram| datagram.data).next());
            kept.truncate(1);
        }
        assert!(batch.lent.len() < 10, "{} slots", batch.lent.len());
    }
}
