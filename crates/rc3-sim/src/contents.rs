//! What a UDP datagram holds, kept without its zeros.
//!
//! Simulated flows are made of zeros and mostly not encrypted, so that of a full packet under way some sixty bytes are not
//! zero. A world holds as many packets as fit into its links; kept whole, they are more than a third of its memory, and
//! each is written and read where no cache reaches.

use bytes::{BufMut, BytesMut};

/// Zeros are searched in pieces of this many bytes.
const PIECE: usize = 16;

/// The bytes of a UDP datagram. Of the first row of zeros, counted in whole pieces, it is only known where and how long it
/// is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// All others.
    kept: Box<[u8]>,
    zeros_at: u32,
    zeros: u32,
}

impl Contents {
    /// These bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let (pieces, _) = bytes.as_chunks::<PIECE>();
        let is_zero = |piece: &[u8; PIECE]| u128::from_ne_bytes(*piece) == 0;
        let before = pieces.iter().take_while(|piece| !is_zero(piece)).count();
        let zero = pieces[before..].iter().take_while(|piece| is_zero(piece)).count();
        let (at, zeros) = (before * PIECE, zero * PIECE);
        let mut kept = Vec::with_capacity(bytes.len() - zeros);
        kept.extend_from_slice(&bytes[..at]);
        kept.extend_from_slice(&bytes[at + zeros..]);
        Self { kept: kept.into(), zeros_at: at as u32, zeros: zeros as u32 }
    }

    /// How many bytes these are, zeros included.
    #[expect(clippy::len_without_is_empty, reason = "nobody sends empty datagrams")]
    pub fn len(&self) -> usize {
        self.kept.len() + self.zeros as usize
    }

    /// Appends all bytes.
    pub fn write_to(&self, buf: &mut impl BufMut) {
        let (head, tail) = self.kept.split_at(self.zeros_at as usize);
        buf.put_slice(head);
        buf.put_bytes(0, self.zeros as usize);
        buf.put_slice(tail);
    }

    /// All bytes, cut off from the beginning of `block`.
    pub(crate) fn cut_from(&self, block: &mut BytesMut) -> BytesMut {
        self.write_to(block);
        block.split()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_a_full_packet_of_zeros_little_is_kept() {
        let mut packet = vec![7; 29];
        packet.resize(1452, 0);
        packet.extend([9; 16]);
        let contents = Contents::new(&packet);
        assert!(contents.kept.len() < 80, "{}", contents.kept.len());
        assert_eq!(contents.cut_from(&mut BytesMut::new()), packet);
    }

    proptest! {
        #[test]
        fn no_byte_is_changed(runs in prop::collection::vec((0..3_u8, 0..70_usize), 0..12)) {
            let bytes: Vec<u8> = runs.iter().flat_map(|&(byte, len)| std::iter::repeat_n(byte, len)).collect();
            let contents = Contents::new(&bytes);
            prop_assert_eq!(contents.len(), bytes.len());
            let mut written = vec![1];
            contents.write_to(&mut written);
            prop_assert_eq!(&written[1..], &bytes[..]);
        }
    }
}
