//! The frames in the payload of an RLP datagram (`docs/WIRE.md#frames`): PADDING, SACK, SOLICIT, COMPLETE, ARRIVAL, PROBE, ORDER,
//! DATA.

use std::{iter::FusedIterator, ops::Range};

use super::{
    arrival::{self, Arrival},
    malformed::Malformed,
    order::{self, Order},
    sack::{self, RECEIPT_LEN, Sack},
    varint::{self, Reader, VARINT_MAX},
};
use crate::units::{Receipt, Span};

const PADDING: u64 = 0x00;
const SOLICIT: u64 = 0x03;
const COMPLETE: u64 = 0x04;
/// DATA is 0x08 to 0x0b; the two low bits say which fields are present.
const DATA: u64 = 0x08;
const DATA_LAST: u64 = 0x0b;
const DATA_HAS_LEN: u64 = 0x01;
const DATA_HAS_FINAL_SIZE: u64 = 0x02;

/// One frame of an RLP datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// One byte without content.
    Padding,
    /// The peer asks for a long datagram, so that it may answer in full.
    Solicit,
    /// Bytes of a stream.
    Data(Data),
    /// The spans of a stream that the peer has.
    Sack(Sack<'a>),
    /// The peer has all bytes of this stream, by QUIC stream id.
    Complete(u64),
    /// Arrival times of local datagrams.
    Arrival(Arrival),
    /// Count what this datagram overtakes.
    Probe,
    /// What the local PROBE has overtaken.
    Order(Order),
}

/// A DATA frame. Its bytes are not copied: [`Self::data`] points into the payload, so the caller can slice them out of
/// a shared buffer.
///
/// Holds `offset + data.len() <= final_size <= 2^62 - 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The QUIC stream id.
    pub stream: u64,
    /// Offset in the stream of the first byte.
    pub offset: u64,
    /// The final size of the stream, if the frame has it.
    pub final_size: Option<u64>,
    /// The receipt that a SACK of these bytes must have.
    pub receipt: Receipt,
    /// Where the bytes lie in the payload given to [`Frames::new`]; always inside it, possibly empty.
    pub data: Range<usize>,
}

impl Data {
    /// The bytes of the stream the frame carries.
    pub fn span(&self) -> Span {
        Span::new(self.offset, self.offset + self.data.len() as u64)
    }

    fn parse(kind: u64, reader: &mut Reader<'_>) -> Option<Self> {
        let (stream, offset) = (reader.varint()?, reader.varint()?);
        let final_size = if kind & DATA_HAS_FINAL_SIZE == 0 { None } else { Some(reader.varint()?) };
        let len = if kind & DATA_HAS_LEN == 0 { None } else { Some(reader.varint()?) };
        let receipt = Receipt::parse(reader)?;
        let len = len.unwrap_or_else(|| reader.rest().len() as u64);
        let start = reader.position;
        reader.take(len)?;
        // Offset and length are below 2^62.
        let may_end = offset + len <= final_size.unwrap_or(VARINT_MAX);
        may_end.then_some(Self { stream, offset, final_size, receipt, data: start..reader.position })
    }
}

/// Everything of a DATA frame except its bytes, which the sender appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// The QUIC stream id.
    pub stream: u64,
    /// Offset in the stream of the first byte.
    pub offset: u64,
    /// The final size of the stream, once it is known.
    pub final_size: Option<u64>,
    /// How many bytes follow; `None` when they extend to the end of the datagram.
    pub explicit_len: Option<u64>,
    /// The receipt that a SACK of the bytes must have.
    pub receipt: Receipt,
}

impl DataHeader {
    /// How many bytes [`Self::emit`] appends.
    pub fn encoded_len(&self) -> usize {
        varint::encoded_len(self.kind())
            + varint::encoded_len(self.stream)
            + varint::encoded_len(self.offset)
            + self.final_size.map_or(0, varint::encoded_len)
            + self.explicit_len.map_or(0, varint::encoded_len)
            + RECEIPT_LEN
    }

    /// Appends the header to `out`.
    ///
    /// # Panics
    /// When a field is above 2^62 - 1.
    pub fn emit(&self, out: &mut Vec<u8>) {
        varint::emit_all([self.kind(), self.stream, self.offset], out);
        varint::emit_all([self.final_size, self.explicit_len].into_iter().flatten(), out);
        self.receipt.emit(out);
    }

    fn kind(&self) -> u64 {
        let final_size = if self.final_size.is_some() { DATA_HAS_FINAL_SIZE } else { 0 };
        let len = if self.explicit_len.is_some() { DATA_HAS_LEN } else { 0 };
        DATA | final_size | len
    }
}

impl Receipt {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let field = reader.take(RECEIPT_LEN as u64)?;
        Some(Self(u32::from_be_bytes(*field.first_chunk()?)))
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend(self.0.to_be_bytes());
    }
}

/// Appends a SOLICIT frame to `out`.
pub(crate) fn emit_solicit(out: &mut Vec<u8>) {
    varint::emit(SOLICIT, out);
}

/// How many bytes [`emit_complete`] appends.
pub fn complete_len(stream: u64) -> usize {
    varint::encoded_len(COMPLETE) + varint::encoded_len(stream)
}

/// Appends a COMPLETE frame for `stream` to `out`.
///
/// # Panics
/// When `stream` is above 2^62 - 1.
pub fn emit_complete(stream: u64, out: &mut Vec<u8>) {
    varint::emit_all([COMPLETE, stream], out);
}

/// Iterator over the frames of a payload. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    reader: Reader<'a>,
    failed: bool,
}

impl<'a> Frames<'a> {
    /// The frames of `payload`, the opened datagram without header and tag.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload), failed: false }
    }

    fn parse(&mut self) -> Option<Frame<'a>> {
        match self.reader.varint()? {
            PADDING => Some(Frame::Padding),
            SOLICIT => Some(Frame::Solicit),
            sack::TYPE => Sack::parse(&mut self.reader).map(Frame::Sack),
            arrival::TYPE => Arrival::parse(&mut self.reader).map(Frame::Arrival),
            order::PROBE => Some(Frame::Probe),
            order::TYPE => Order::parse(&mut self.reader).map(Frame::Order),
            COMPLETE => self.reader.varint().map(Frame::Complete),
            kind @ DATA..=DATA_LAST => Data::parse(kind, &mut self.reader).map(Frame::Data),
            _ => None,
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let frame = self.parse();
        self.failed = frame.is_none();
        Some(frame.ok_or(Malformed))
    }
}

impl FusedIterator for Frames<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Item {
        Padding,
        Solicit,
        Complete(u64),
        Probe,
        Order(Order),
        Data(DataHeader, Vec<u8>),
        Sack(u64, Span),
    }

    fn any_data() -> impl Strategy<Value = (DataHeader, Vec<u8>)> {
        let data = prop::collection::vec(any::<u8>(), 0..300);
        (0..=VARINT_MAX, 0..1_u64 << 60, prop::option::of(0..1_u64 << 60), data).prop_map(
            |(stream, offset, slack, data)| {
                let len = data.len() as u64;
                let final_size = slack.map(|slack| offset + len + slack);
                let receipt = Receipt(stream as u32);
                (DataHeader { stream, offset, final_size, explicit_len: Some(len), receipt }, data)
            },
        )
    }

    fn any_item() -> impl Strategy<Value = Item> {
        prop_oneof![
            Just(Item::Padding),
            Just(Item::Solicit),
            (0..=VARINT_MAX).prop_map(Item::Complete),
            Just(Item::Probe),
            (0..=VARINT_MAX, 0..=VARINT_MAX, 0..=VARINT_MAX).prop_map(|(packet_number, came, overtaken)| {
                Item::Order(Order { packet_number, came, overtaken })
            }),
            any_data().prop_map(|(header, data)| Item::Data(header, data)),
            (0..=VARINT_MAX, 0..1_u64 << 60, 1..1_u64 << 60)
                .prop_map(|(stream, start, len)| Item::Sack(stream, Span::new(start, start + len))),
        ]
    }

    fn emit(item: &Item, out: &mut Vec<u8>) {
        match item {
            Item::Padding => out.push(0),
            Item::Solicit => emit_solicit(out),
            Item::Complete(stream) => {
                let start = out.len();
                emit_complete(*stream, out);
                assert_eq!(out.len() - start, complete_len(*stream));
            }
            Item::Probe => order::emit_probe(out),
            Item::Order(order) => order.emit(out),
            Item::Data(header, data) => {
                let start = out.len();
                header.emit(out);
                assert_eq!(out.len() - start, header.encoded_len());
                out.extend(data);
            }
            Item::Sack(stream, span) => {
                assert_eq!(sack::emit(*stream, [(*span, Receipt(9))], usize::MAX, out), 1);
            }
        }
    }

    fn assert_same(frame: &Frame<'_>, item: &Item, payload: &[u8]) {
        match (frame, item) {
            (Frame::Padding, Item::Padding)
            | (Frame::Solicit, Item::Solicit)
            | (Frame::Probe, Item::Probe) => {}
            (Frame::Order(order), Item::Order(sent)) => assert_eq!(order, sent),
            (Frame::Complete(stream), Item::Complete(sent)) => assert_eq!(stream, sent),
            (Frame::Data(data), Item::Data(header, bytes)) => {
                assert_eq!(
                    (data.stream, data.offset, data.final_size, data.receipt),
                    (header.stream, header.offset, header.final_size, header.receipt)
                );
                assert_eq!(payload[data.data.clone()], bytes[..]);
                assert_eq!(data.span(), Span::new(header.offset, header.offset + bytes.len() as u64));
            }
            (Frame::Sack(sack), Item::Sack(stream, span)) => {
                assert_eq!((sack.stream, sack.spans().collect()), (*stream, vec![(*span, Receipt(9))]));
            }
            _ => panic!("{frame:?} is not {item:?}"),
        }
    }

    #[test]
    fn faults_are_named_and_end_the_datagram() {
        for (payload, why) in [
            (&[0x01][..], "unknown type"),
            (&[0x0c], "unknown type"),
            (&[0x40], "cut short"),
            (&[0x04], "cut short"),
            (&[0x08, 4], "cut short"),
            (&[0x08, 4, 0, 1, 2, 3], "cut short"),
            (&[0x09, 4, 0, 2, 1, 2, 3, 4, 0xaa], "cut short"),
            (&[0x0a, 4, 3, 4, 1, 2, 3, 4, 0xaa, 0xbb], "beyond the final size"),
            (
                &[0x08, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 0xaa],
                "past the largest offset",
            ),
        ] {
            let mut frames = Frames::new(payload);
            assert_eq!(frames.next(), Some(Err(Malformed)), "{why}: {payload:x?}");
            assert_eq!(frames.next(), None);
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            items in prop::collection::vec(any_item(), 0..8),
            last in prop::option::of(any_data()),
        ) {
            let mut items = items;
            if let Some((header, data)) = last {
                items.push(Item::Data(DataHeader { explicit_len: None, ..header }, data));
            }
            let mut payload = Vec::new();
            items.iter().for_each(|item| emit(item, &mut payload));
            let frames: Vec<_> = Frames::new(&payload).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(frames.len(), items.len());
            for (frame, item) in frames.iter().zip(&items) {
                assert_same(frame, item, &payload);
            }
        }

        #[test]
        fn garbage_yields_only_frames_that_hold_their_invariants(
            payload in prop::collection::vec(prop_oneof![0..0x10_u8, any::<u8>()], 0..200),
        ) {
            let mut count = 0;
            for frame in Frames::new(&payload) {
                count += 1;
                match frame {
                    Ok(Frame::Data(data)) => {
                        prop_assert!(data.data.end <= payload.len());
                        prop_assert!(data.span().end <= data.final_size.unwrap_or(VARINT_MAX));
                    }
                    Ok(Frame::Sack(sack)) => {
                        let mut end = None;
                        for (span, _) in sack.spans() {
                            prop_assert!(!span.is_empty() && span.end <= VARINT_MAX);
                            prop_assert!(end.is_none_or(|end| end < span.start));
                            end = Some(span.end);
                        }
                        prop_assert!(end.is_some());
                    }
                    Ok(Frame::Padding | Frame::Solicit | Frame::Probe) | Err(_) => {}
                    Ok(Frame::Complete(_) | Frame::Arrival(_) | Frame::Order(_)) => {}
                }
            }
            prop_assert!(count <= payload.len());
        }
    }
}
