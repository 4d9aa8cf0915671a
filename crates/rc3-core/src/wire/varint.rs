//! QUIC's variable-length integers (RFC 9000 §16), 0 to 2^62 - 1 in 1, 2, 4 or 8 bytes.

/// The largest varint, and so the largest offset and size of a stream.
pub(crate) const VARINT_MAX: u64 = (1 << 62) - 1;

/// How many bytes the shortest encoding of `value` takes.
///
/// Values above [`VARINT_MAX`] have no encoding; the result is then 8.
pub(crate) const fn encoded_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest encoding of `value`.
///
/// # Panics
/// When `value` is above [`VARINT_MAX`].
pub(crate) fn emit(value: u64, out: &mut Vec<u8>) {
    assert!(value <= VARINT_MAX, "{value} does not fit into a varint");
    let bytes = value.to_be_bytes();
    let len = encoded_len(value);
    let start = out.len();
    out.extend_from_slice(&bytes[bytes.len() - len..]);
    // The two top bits hold the binary logarithm of the length.
    out[start] |= (len.trailing_zeros() as u8) << 6;
}

/// Appends the shortest encodings of `values`.
///
/// # Panics
/// As [`emit`].
pub(crate) fn emit_all(values: impl IntoIterator<Item = u64>, out: &mut Vec<u8>) {
    values.into_iter().for_each(|value| emit(value, out));
}

/// Parses the varint at the front of `bytes`: its value and how many bytes it took, or `None` when `bytes` ends before
/// it. Longer encodings than needed are valid.
pub fn parse(bytes: &[u8]) -> Option<(u64, usize)> {
    let &first = bytes.first()?;
    let len = len_from_first_byte(first);
    let tail = bytes.get(1..len)?;
    let value = tail.iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte));
    Some((value, len))
}

/// The length of the varint that begins with `first`.
pub(crate) const fn len_from_first_byte(first: u8) -> usize {
    1 << (first >> 6)
}

/// A cursor over bytes from the network; every read is checked.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    pub(crate) position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (value, len) = parse(self.rest())?;
        self.position += len;
        Some(value)
    }

    /// The next `len` bytes, or `None` (and no step) when there are fewer.
    pub(crate) fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let bytes = self.rest().get(..usize::try_from(len).ok()?)?;
        self.position += bytes.len();
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn emitted(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        emit(value, &mut out);
        out
    }

    #[test]
    fn examples_of_rfc_9000_a_1_hold() {
        for (value, bytes) in [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ] {
            assert_eq!(emitted(value), bytes);
            assert_eq!(parse(bytes), Some((value, bytes.len())));
        }
        assert_eq!(parse(&[0x40, 0x25]), Some((37, 2)), "a longer encoding is as good");
    }

    #[test]
    fn length_changes_at_the_powers() {
        for (value, len) in
            [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 4), (1 << 30, 8), (VARINT_MAX, 8)]
        {
            assert_eq!(emitted(value).len(), len, "{value}");
        }
    }

    #[test]
    #[should_panic = "does not fit"]
    fn values_past_the_maximum_are_not_truncated() {
        emitted(VARINT_MAX + 1);
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(value in 0..=VARINT_MAX, shift in 0..62_u32, tail: Vec<u8>) {
            let value = value >> shift;
            let mut bytes = emitted(value);
            let len = bytes.len();
            prop_assert_eq!(len, encoded_len(value));
            prop_assert_eq!(parse(&bytes[..len - 1]), None);
            bytes.extend(tail);
            prop_assert_eq!(parse(&bytes), Some((value, len)));
        }
    }
}
