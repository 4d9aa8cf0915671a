//! Memory of the packets that come in.

use std::cell::RefCell;

use bytes::BytesMut;

use crate::Contents;

/// Bytes allocated for packets, enough for two full ones. While something of one is kept, so is its block, and the next
/// ones get another.
const BLOCK: usize = 1 << 12;

thread_local! {
    /// Most packets are read at once and leave their memory to the next. All hosts of a thread share it, so that it stays
    /// in the cache.
    static SHARED: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// A whole datagram.
pub(super) fn restore(contents: &Contents) -> BytesMut {
    SHARED.with_borrow_mut(|block| {
        if !block.try_reclaim(BLOCK) && block.capacity() < contents.len() {
            block.reserve(BLOCK.max(contents.len()));
        }
        contents.cut_from(block)
    })
}
