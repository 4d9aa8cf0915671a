//! Buffers of packets that have left, reused for new ones: allocating one per packet costs more than filling it.

/// Most buffers kept; a burst that needs more allocates.
const KEPT_MAX: usize = 4096;

/// Empty buffers of one capacity.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity: usize,
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, buffers: Vec::new() }
    }

    /// An empty buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(self.capacity))
    }

    /// Takes a buffer back. Shorter ones, from parts of packets, are freed.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() >= self.capacity && self.buffers.len() < KEPT_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}
