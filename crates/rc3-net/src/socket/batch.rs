//! What one receive call brought: buffers, and the datagrams in them.
//!
//! The kernel fills a fixed number of slots, each large enough for the longest message. A message that fills
//! half its slot or more is handed out in place; the slot takes its memory back if nobody holds a part of it
//! by the next call, else it gets new memory. A shorter one is copied out, so that a lone packet kept in some
//! reassembly buffer never pins a whole slot.
//!
//! Invariant: slots at or past `next` up to `messages.len()` hold one undelivered message each.

use std::{
    mem,
    net::{IpAddr, SocketAddr},
};

use bytes::BytesMut;

#[cfg(target_os = "linux")]
use super::sys;

/// Messages per receive call. More gain little: at full speed each is a batch of its own.
pub const RECV_MESSAGES_MAX: usize = 32;

/// Room for the longest message, a joined batch just below 64 KiB.
pub(super) const SLOT_BYTES: usize = 1 << 16;

/// From this length on a message leaves in its slot's memory, which then is at most twice as much.
const IN_PLACE_MIN: usize = SLOT_BYTES / 2;

/// What the kernel told about a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvMeta {
    /// Who sent it.
    pub remote: SocketAddr,
    /// The local address it was sent to, fit as the source of a reply; `None` if unknown or not an address of
    /// ours.
    pub local: Option<IpAddr>,
    /// Explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// If it came in fragments and the system tells enough: bytes of payload of the leading one, without its IP header.
    /// How sure that is: [`super::LeadingLens`].
    pub leading_len: Option<u16>,
}

/// One received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// What the kernel told about it.
    pub meta: RecvMeta,
    /// Its payload, never empty. May share memory with its neighbours.
    pub data: BytesMut,
}

/// The buffers of one receive call; make one per receiving task and use it again and again.
///
/// Holds [`RECV_MESSAGES_MAX`] x 64 KiB of address space, of which only what was ever received is touched.
pub struct RecvBatch {
    pub(super) slots: Vec<BytesMut>,
    pub(super) messages: Vec<Message>,
    #[cfg(target_os = "linux")]
    pub(super) scratch: sys::Scratch,
    next: usize,
    current: BytesMut,
}

/// One message of the kernel: datagrams of `stride` bytes each, the last perhaps shorter, all with one
/// `meta`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) meta: RecvMeta,
    pub(super) stride: usize,
}

impl RecvBatch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            slots: vec![BytesMut::new(); RECV_MESSAGES_MAX],
            messages: Vec::with_capacity(RECV_MESSAGES_MAX),
            #[cfg(target_os = "linux")]
            scratch: sys::Scratch::default(),
            next: 0,
            current: BytesMut::new(),
        }
    }

    /// The datagrams not yet taken, in the order of arrival. An iterator left early can be followed by
    /// another one.
    pub fn datagrams(&mut self) -> Datagrams<'_> {
        Datagrams { batch: self }
    }

    /// Empties all slots and gives each at least [`SLOT_BYTES`] of room.
    pub(super) fn refill(&mut self) {
        // The others were left as they are.
        let used = if self.slots[0].capacity() == 0 { RECV_MESSAGES_MAX } else { self.messages.len() };
        self.messages.clear();
        self.next = 0;
        self.current = BytesMut::new();
        for slot in &mut self.slots[..used] {
            slot.clear();
            slot.reserve(SLOT_BYTES);
        }
    }

    /// Moves the next message out of its slot; `false` when there is none.
    fn advance(&mut self) -> bool {
        if self.next >= self.messages.len() {
            return false;
        }
        let slot = &mut self.slots[self.next];
        self.current = if slot.len() >= IN_PLACE_MIN {
            slot.split()
        } else {
            let copy = BytesMut::from(&slot[..]);
            slot.clear();
            copy
        };
        self.next += 1;
        true
    }
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

/// Iterator over the datagrams of a [`RecvBatch`].
#[derive(Debug)]
pub struct Datagrams<'a> {
    batch: &'a mut RecvBatch,
}

impl Iterator for Datagrams<'_> {
    type Item = Datagram;

    fn next(&mut self) -> Option<Datagram> {
        // An empty message is nobody's packet; skip it.
        while self.batch.current.is_empty() {
            if !self.batch.advance() {
                return None;
            }
        }
        let Message { meta, stride } = self.batch.messages[self.batch.next - 1];
        let current = &mut self.batch.current;
        // The last one takes the handle along, so that the slot can have its memory back.
        let data = if stride < current.len() { current.split_to(stride) } else { mem::take(current) };
        Some(Datagram { meta, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: RecvMeta = RecvMeta {
        remote: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9),
        local: None,
        ecn: 0,
        dscp: 0,
        leading_len: None,
    };

    fn batch(messages: &[(usize, usize)]) -> RecvBatch {
        let mut batch = RecvBatch::new();
        batch.refill();
        fill(&mut batch, messages);
        batch
    }

    fn fill(batch: &mut RecvBatch, messages: &[(usize, usize)]) {
        for (index, &(len, stride)) in messages.iter().enumerate() {
            batch.slots[index].extend((0..len).map(|byte| byte as u8));
            batch.messages.push(Message { meta: META, stride });
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
        assert_eq!(batch.slots[0].as_ptr(), memory, "nobody held it");

        fill(&mut batch, &[(60_000, 1_200)]);
        let held = batch.datagrams().nth(1).unwrap().data;
        batch.refill();
        assert_ne!(batch.slots[0].as_ptr(), memory);
        fill(&mut batch, &[(60_000, 1_200)]);
        assert_eq!(held[0], (1_200 % 256) as u8);
    }

    #[test]
    fn a_short_message_does_not_pin_its_slot() {
        let mut batch = batch(&[(1_200, 1_200)]);
        let memory = batch.slots[0].as_ptr();
        let held = batch.datagrams().next().unwrap().data;
        assert!(held.capacity() < 2 * 1_200);
        batch.refill();
        assert_eq!(batch.slots[0].as_ptr(), memory);
    }
}
