//! Buffers of packets that have left, reused for new ones: allocating one per packet costs more than filling it.

/// Most bytes of buffers kept in each pool; a burst that needs more allocates.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Most buffers kept.
const KEPT_MAX: usize = 4096;

/// Buffers of one length. Those in the pool have that length, so that they can be read into.
#[derive(Debug)]
pub(crate) struct Pool {
    len: usize,
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    pub(crate) fn new(len: usize) -> Self {
        Self { len, buffers: Vec::new() }
    }

    /// Length of its buffers.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A buffer with arbitrary content.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| vec![0; self.len])
    }

    /// Takes a buffer back. Those of another capacity, as of parts of packets, are freed.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == self.len
            && self.buffers.len() < KEPT_MAX.min(KEPT_BYTES_MAX / self.len.max(1))
        {
            buffer.resize(self.len, 0);
            self.buffers.push(buffer);
        }
    }
}
