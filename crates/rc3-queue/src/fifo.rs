//! FIFOs that stay where caches are warm.

use std::collections::VecDeque;

/// Takes a packet off one end. An emptied FIFO begins at its first slot again: through most queues packets go one at a
/// time, and after a long burst each would otherwise find a slot that no cache holds.
pub(crate) fn take<T>(fifo: &mut VecDeque<T>, end: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
    let packet = end(fifo)?;
    if fifo.is_empty() {
        fifo.clear();
    }
    Some(packet)
}
