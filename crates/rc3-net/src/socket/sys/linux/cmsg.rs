//! Control messages of Linux, written and read without any unsafe code.
//!
//! The kernel's layout is fixed: a length of one machine word that counts the header, two 32-bit numbers, the
//! data, and padding to the next machine word (cmsg(3)). Everything is in the machine's byte order. The C
//! library may declare the length narrower (musl does) but must agree with this layout in memory.

/// Bytes of a header.
const HEADER: usize = size_of::<usize>() + 8;

/// Memory for control messages, aligned as the kernel wants it. All bytes are always initialised.
#[derive(Clone)]
#[repr(C, align(8))]
pub(super) struct Control<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Control<N> {
    pub(super) const fn new() -> Self {
        Self([0; N])
    }
}

/// Bytes that a message with `data` bytes of data takes up.
pub(super) const fn space(data: usize) -> usize {
    HEADER + align(data)
}

/// Appends control messages to a buffer.
///
/// Contract: the caller provides at least the sum of [`space`] over all messages. One that does not fit is a bug and
/// panics; it is never dropped silently, since a packet without its marks would be sent at the wrong priority.
pub(super) struct Encoder<'a> {
    buffer: &'a mut [u8],
    used: usize,
}

impl<'a> Encoder<'a> {
    pub(super) fn new<const N: usize>(control: &'a mut Control<N>) -> Self {
        Self { buffer: &mut control.0, used: 0 }
    }

    pub(super) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let message = &mut self.buffer[self.used..self.used + space(data.len())];
        let (header, body) = message.split_at_mut(HEADER);
        header[..size_of::<usize>()].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        header[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
        header[size_of::<usize>() + 4..].copy_from_slice(&kind.to_ne_bytes());
        body[..data.len()].copy_from_slice(data);
        self.used += space(data.len());
    }

    /// Bytes used.
    pub(super) fn len(&self) -> usize {
        self.used
    }
}

/// One control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ControlMessage<'a> {
    pub(super) level: i32,
    pub(super) kind: i32,
    pub(super) data: &'a [u8],
}

impl ControlMessage<'_> {
    /// The data as a number of one or four bytes, the two forms the kernel uses for TOS.
    pub(super) fn number(&self) -> Option<u32> {
        match *self.data {
            [byte] => Some(u32::from(byte)),
            _ => self.data.try_into().ok().map(u32::from_ne_bytes),
        }
    }
}

/// Iterates over control messages; ends at the first invalid one.
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Over the part of a buffer that the kernel has filled.
    pub(super) fn new(filled: &'a [u8]) -> Self {
        Self { rest: filled }
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = ControlMessage<'a>;

    fn next(&mut self) -> Option<ControlMessage<'a>> {
        let (len, after) = self.rest.split_first_chunk()?;
        let (level, after) = after.split_first_chunk()?;
        let (kind, after) = after.split_first_chunk()?;
        let data_len = usize::from_ne_bytes(*len).checked_sub(HEADER)?;
        let data = after.get(..data_len)?;
        // The last message may lack its padding.
        self.rest = after.get(align(data_len)..).unwrap_or_default();
        Some(ControlMessage { level: i32::from_ne_bytes(*level), kind: i32::from_ne_bytes(*kind), data })
    }
}

const fn align(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_that_of_the_c_library() {
        for data in 0..40u32 {
            // SAFETY: CMSG_SPACE and CMSG_LEN only compute with their argument.
            let (whole, filled) = unsafe { (libc::CMSG_SPACE(data), libc::CMSG_LEN(data)) };
            assert_eq!(space(data as usize), whole as usize);
            assert_eq!(HEADER + data as usize, filled as usize);
        }
        assert!(align_of::<Control<1>>() >= align_of::<libc::cmsghdr>());
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_message_without_room_is_never_lost_silently() {
        let mut control = Control::<{ space(4) }>::new();
        let mut encoder = Encoder::new(&mut control);
        encoder.push(0, 1, &[0; 4]);
        encoder.push(0, 1, &[0; 4]);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            messages in prop::collection::vec(
                (any::<i32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..24)),
                0..6,
            ),
        ) {
            let mut control = Control::<256>::new();
            let mut encoder = Encoder::new(&mut control);
            for (level, kind, data) in &messages {
                encoder.push(*level, *kind, data);
            }
            let used = encoder.len();
            let decoded: Vec<_> =
                Decoder::new(&control.0[..used]).map(|m| (m.level, m.kind, m.data.to_vec())).collect();
            prop_assert_eq!(decoded, messages);
        }

        #[test]
        fn any_bytes_decode_to_no_more_than_they_hold(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            len in 0usize..64,
        ) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_chunk_mut() {
                *first = len.to_ne_bytes();
            }
            let total: usize = Decoder::new(&bytes).map(|m| HEADER + m.data.len()).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
