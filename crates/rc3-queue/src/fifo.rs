//! FIFOs whose memory stays in the caches.

use std::collections::VecDeque;

/// Removes a packet from one end. An emptied FIFO starts again at its first slot. Most queues hold one packet at a
/// time; after a long burst, each packet would otherwise use a slot that is in no cache.
pub(crate) fn take<T>(fifo: &mut VecDeque<T>, end: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
    let packet = end(fifo)?;
    if fifo.is_empty() {
        fifo.clear();
    }
    Some(packet)
}
