//! The bytes of a flow: the same at both ends without memory, and different at each offset of a long period.

use std::{
    io,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rc3_net::file::{ReadAt, WriteAt};

/// Bytes after which the pattern repeats: a prime number, so that an offset wrong by a packet or a block shows.
const PERIOD: usize = 1_000_003;

static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut block = vec![0; PERIOD];
    blake3::Hasher::new().update(b"rc3 check").finalize_xof().fill(&mut block);
    block
});

/// The pattern from `offset` to the end of its period.
fn rest(offset: u64) -> &'static [u8] {
    // Less than the period.
    &BLOCK[(offset % PERIOD as u64) as usize..]
}

/// An endless source.
#[derive(Debug, Clone, Copy)]
pub(super) struct BulkPattern;

impl ReadAt for BulkPattern {
    fn read_at(&self, mut buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = buf.len();
        while !buf.is_empty() {
            let piece = rest(offset + (len - buf.len()) as u64);
            let (now, later) = buf.split_at_mut(piece.len().min(buf.len()));
            now.copy_from_slice(&piece[..now.len()]);
            buf = later;
        }
        Ok(len)
    }
}

/// Counts and compares what arrives, and keeps none of it.
#[derive(Debug, Default)]
pub(super) struct Counter {
    bytes: AtomicU64,
}

impl Counter {
    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl WriteAt for Counter {
    /// Fails if the bytes are not those of the pattern.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        while !bytes.is_empty() {
            let piece = rest(offset);
            let (now, later) = bytes.split_at(piece.len().min(bytes.len()));
            if now != &piece[..now.len()] {
                return Err(io::ErrorKind::InvalidData.into());
            }
            (bytes, offset) = (later, offset + now.len() as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_their_offset_and_no_other() {
        let mut bytes = vec![0; 2 * PERIOD + 100];
        assert_eq!(BulkPattern.read_at(&mut bytes, 7).unwrap(), bytes.len());
        let counter = Counter::default();
        counter.write_all_at(&bytes, 7).unwrap();
        counter.write_all_at(&bytes[5000..], 5007).unwrap();
        assert_eq!(counter.bytes(), 2 * bytes.len() as u64 - 5000);
        for wrong in [8, 7 + 1200, 7 + (1 << 20)] {
            assert!(counter.write_all_at(&bytes, wrong).is_err(), "{wrong}");
        }
        bytes[PERIOD] ^= 1;
        assert!(counter.write_all_at(&bytes, 7).is_err());
    }
}
