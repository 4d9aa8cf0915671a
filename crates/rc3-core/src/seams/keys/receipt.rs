//! Receipts prove that the peer has received a span of a stream by RLP: pieces of the sender's secret.
//!
//! A datagram with the bytes from `a` to `b` of a stream carries `f(a) ^ f(b)`, where only the sender can compute `f`.
//! Adjoining datagrams combine to the same form, so a receiver stores one value for each run and reports it in a SACK;
//! without one datagram of the run it succeeds with probability 2^-32. The sender stores nothing.

use super::protection::{Mask, Protection};
use crate::units::{Receipt, Span};

/// Length of the secret in bytes.
pub const RECEIPT_SECRET_LEN: usize = 16;

/// Makes the receipts of one connection's sender.
pub(crate) struct ReceiptKey(Box<dyn Mask>);

impl ReceiptKey {
    /// A key from a secret that the peer cannot guess, nor learn from another connection.
    pub(crate) fn new(protection: &dyn Protection, secret: &[u8; RECEIPT_SECRET_LEN]) -> Self {
        Self(protection.receipts(secret))
    }

    /// The receipt for these bytes of the stream with this id.
    pub(crate) fn receipt(&self, stream: u64, span: Span) -> Receipt {
        self.at(stream, span.start) ^ self.at(stream, span.end)
    }

    fn at(&self, stream: u64, offset: u64) -> Receipt {
        let mut block = [0; 16];
        let (high, low) = block.split_at_mut(8);
        high.copy_from_slice(&stream.to_be_bytes());
        low.copy_from_slice(&offset.to_be_bytes());
        let [a, b, c, d, _] = self.0.of(&block).expect("a block has the length of a block");
        Receipt(u32::from_be_bytes([a, b, c, d]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seams::keys::Aead;

    proptest! {
        #[test]
        fn receipts_of_neighbours_are_that_of_both(stream: u64, mut at: [u64; 3], secret: [u8; 16]) {
            at.sort_unstable();
            let [start, middle, end] = at;
            let key = ReceiptKey::new(&Aead, &secret);
            let of = |start, end| key.receipt(stream, Span::new(start, end));
            prop_assert_eq!(of(start, middle) ^ of(middle, end), of(start, end));
            prop_assert_eq!(of(start, start), Receipt(0));
        }
    }

    #[test]
    fn receipts_differ_by_stream_offset_and_secret() {
        let of = |secret, stream, start| {
            ReceiptKey::new(&Aead, &[secret; 16]).receipt(stream, Span::new(start, 1000))
        };
        let receipts = [of(0, 4, 0), of(0, 4, 1), of(0, 8, 0), of(1, 4, 0)];
        for (nth, receipt) in receipts.iter().enumerate() {
            assert!(!receipts[..nth].contains(receipt));
        }
    }
}
