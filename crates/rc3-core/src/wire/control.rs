//! The frames of the control stream (`docs/WIRE.md#control`): the first unidirectional stream of each side.
//!
//! Each frame is a type, a length and a payload. SETTINGS comes first and once; frames of unknown type are
//! skipped. Credits are in bytes.

use zeroize::Zeroizing;

use super::{
    header::ReceiverId,
    malformed::Malformed,
    varint::{self, Reader},
};
use crate::shows::shows;

/// The credit for RLP data in each direction, for a connection and for each of its streams, until SETTINGS changes it
/// (bytes).
///
/// SETTINGS arrive half a round trip after the keys are ready; without this credit the first flight, the one RC3 is
/// about, could not leave.
pub(crate) const INITIAL_CREDIT: u64 = 1 << 20;

/// Longest payload of a control frame in bytes, unknown types included.
pub(crate) const PAYLOAD_LEN_MAX: u64 = 4096;

const SETTINGS: u64 = 0x00;
const MAX_RLP_DATA: u64 = 0x01;
const MAX_RLP_STREAM_DATA: u64 = 0x02;
const STREAM_RESET: u64 = 0x03;
const SIGNAL: u64 = 0x04;
const PATH: u64 = 0x05;
const EARLY: u64 = 0x06;
const RECEIVER_ID: u64 = 0x07;
const PAUSE: u64 = 0x08;

/// Length of an [`EarlySecret`] in bytes.
pub(crate) const EARLY_SECRET_LEN: usize = 32;

const SETTING_CONNECTION_CREDIT: u64 = 0x01;
const SETTING_STREAM_CREDIT: u64 = 0x02;
const SETTING_ARRIVALS: u64 = 0x03;

/// One frame of the control stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlFrame {
    /// What its sender grants from the start.
    Settings(Settings),
    /// The absolute limit on the RLP data of the connection in bytes.
    MaxRlpData(u64),
    /// The absolute limit on the offsets of one stream's RLP data.
    MaxRlpStreamData {
        /// The QUIC stream id.
        stream: u64,
        /// First offset that may not be sent.
        limit: u64,
    },
    /// The sender has reset a stream; the receiver cannot know how much of the connection's credit it had used.
    StreamReset {
        /// The QUIC stream id.
        stream: u64,
        /// The highest offset either loop had sent.
        used: u64,
    },
    /// One of the peer's packets arrived in fragments: routers signal a rate to it (Kick-Ass §2).
    Signal {
        /// Payload of the leading fragment in bytes. A length that is not a code has no meaning.
        leading: u64,
    },
    /// RLP datagrams use another path from now on, with the receiver id of this number.
    Path(u64),
    /// The secret of the client's early data.
    Early(EarlySecret),
    /// The receiver chooses its id on a path; it replaces the derived one.
    ReceiverId {
        /// The number of the path.
        number: u64,
        /// The id in RLP datagrams to the sender of the frame.
        id: ReceiverId,
    },
    /// Nobody reads a stream: its bytes would only use up the credit of others.
    Pause {
        /// The QUIC stream id.
        stream: u64,
        /// Whether its data should wait, or may be sent again.
        paused: bool,
    },
}

/// The secret of one connection's early data; not printed, and wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct EarlySecret(pub Zeroizing<[u8; EARLY_SECRET_LEN]>);

shows!(EarlySecret:);

/// The content of a SETTINGS frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Initial limit for the connection, as by MAX_RLP_DATA (bytes).
    pub connection_credit: u64,
    /// Initial limit for every stream, as by MAX_RLP_STREAM_DATA (bytes).
    pub stream_credit: u64,
    /// Whether it wants ARRIVAL frames.
    pub arrivals: bool,
}

impl Default for Settings {
    /// Defaults of absent settings: [`INITIAL_CREDIT`] for both credits, and no ARRIVAL frames.
    fn default() -> Self {
        Self { connection_credit: INITIAL_CREDIT, stream_credit: INITIAL_CREDIT, arrivals: false }
    }
}

impl Settings {
    /// `None` also when a setting is repeated.
    fn parse(payload: &[u8]) -> Option<Self> {
        let mut settings = Self::default();
        let mut reader = Reader::new(payload);
        // At most half as many ids as the payload has bytes.
        let mut ids = Vec::new();
        while !reader.is_empty() {
            let (id, value) = (reader.varint()?, reader.varint()?);
            match id {
                SETTING_CONNECTION_CREDIT => settings.connection_credit = value,
                SETTING_STREAM_CREDIT => settings.stream_credit = value,
                SETTING_ARRIVALS => settings.arrivals = value != 0,
                _ => {}
            }
            ids.push(id);
        }
        ids.sort_unstable();
        ids.is_sorted_by(|one, next| one < next).then_some(settings)
    }
}

impl ControlFrame {
    /// Appends the frame to `out`.
    ///
    /// # Panics
    /// When a value is above [`varint::VARINT_MAX`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Settings(Settings { connection_credit, stream_credit, arrivals }) => {
                let credits =
                    [SETTING_CONNECTION_CREDIT, connection_credit, SETTING_STREAM_CREDIT, stream_credit];
                let arrivals = arrivals.then_some([SETTING_ARRIVALS, 1]);
                let settings: Vec<u64> = credits.into_iter().chain(arrivals.into_iter().flatten()).collect();
                emit_varints(SETTINGS, &settings, out);
            }
            Self::MaxRlpData(limit) => emit_varints(MAX_RLP_DATA, &[limit], out),
            Self::MaxRlpStreamData { stream, limit } => {
                emit_varints(MAX_RLP_STREAM_DATA, &[stream, limit], out);
            }
            Self::StreamReset { stream, used } => emit_varints(STREAM_RESET, &[stream, used], out),
            Self::Signal { leading } => emit_varints(SIGNAL, &[leading], out),
            Self::Path(number) => emit_varints(PATH, &[number], out),
            Self::Early(EarlySecret(ref secret)) => {
                varint::emit_all([EARLY, EARLY_SECRET_LEN as u64], out);
                out.extend_from_slice(&**secret);
            }
            Self::ReceiverId { number, id } => {
                let len = (varint::encoded_len(number) + id.0.len()) as u64;
                varint::emit_all([RECEIVER_ID, len, number], out);
                out.extend_from_slice(&id.0);
            }
            Self::Pause { stream, paused } => emit_varints(PAUSE, &[stream, paused.into()], out),
        }
    }

    /// `Some(None)` for a type that rc3/1 does not know.
    fn parse(kind: u64, payload: &[u8]) -> Option<Option<Self>> {
        let mut reader = Reader::new(payload);
        let mut field = || reader.varint();
        let frame = match kind {
            SETTINGS => return Settings::parse(payload).map(|settings| Some(Self::Settings(settings))),
            MAX_RLP_DATA => Self::MaxRlpData(field()?),
            MAX_RLP_STREAM_DATA => Self::MaxRlpStreamData { stream: field()?, limit: field()? },
            STREAM_RESET => Self::StreamReset { stream: field()?, used: field()? },
            SIGNAL => Self::Signal { leading: field()? },
            PATH => Self::Path(field()?),
            EARLY => {
                let secret: [u8; _] = payload.try_into().ok()?;
                return Some(Some(Self::Early(EarlySecret(secret.into()))));
            }
            RECEIVER_ID => {
                let number = field()?;
                let id = reader.take(size_of::<ReceiverId>() as u64)?;
                Self::ReceiverId { number, id: ReceiverId(id.try_into().ok()?) }
            }
            PAUSE => Self::Pause { stream: field()?, paused: field()? != 0 },
            _ => return Some(None),
        };
        reader.is_empty().then_some(Some(frame))
    }
}

/// Parses the control stream as its bytes arrive.
///
/// Stores bytes that were pushed and not yet decoded: with [`Self::next`] called until `None` after each push, that is
/// less than one frame of `PAYLOAD_LEN_MAX` bytes, plus the chunk.
#[derive(Debug, Default)]
pub struct ControlDecoder {
    buffer: Vec<u8>,
    /// How much of `buffer` has been decoded.
    decoded: usize,
    settings_seen: bool,
}

impl ControlDecoder {
    /// Adds the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.decoded);
        self.decoded = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// The peer's fault. The connection must be closed; every further call returns the same.
    #[expect(clippy::should_implement_trait, reason = "yields again after None, once bytes have come")]
    pub fn next(&mut self) -> Result<Option<ControlFrame>, Malformed> {
        loop {
            let mut reader = Reader::new(self.buffer.get(self.decoded..).unwrap_or_default());
            let Some(kind) = reader.varint() else { return Ok(None) };
            // Nothing may precede SETTINGS, nor may they be repeated: no need to wait for the payload.
            if (kind == SETTINGS) == self.settings_seen {
                return Err(Malformed);
            }
            let Some(len) = reader.varint() else { return Ok(None) };
            if len > PAYLOAD_LEN_MAX {
                return Err(Malformed);
            }
            let Some(payload) = reader.take(len) else { return Ok(None) };
            let frame = ControlFrame::parse(kind, payload).ok_or(Malformed)?;
            self.decoded += reader.position;
            self.settings_seen = true;
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }
}

/// Appends a frame whose payload is a sequence of varints.
fn emit_varints(kind: u64, fields: &[u64], out: &mut Vec<u8>) {
    let len = fields.iter().map(|&field| varint::encoded_len(field) as u64).sum();
    varint::emit_all([kind, len], out);
    varint::emit_all(fields.iter().copied(), out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{document::documented, varint::VARINT_MAX};

    fn decode_all(decoder: &mut ControlDecoder, bytes: &[u8]) -> Result<Vec<ControlFrame>, Malformed> {
        decoder.push(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<ControlFrame>, Malformed> {
        decode_all(&mut ControlDecoder::default(), bytes)
    }

    fn any_settings() -> impl Strategy<Value = ControlFrame> {
        (0..=VARINT_MAX, 0..=VARINT_MAX, any::<bool>()).prop_map(
            |(connection_credit, stream_credit, arrivals)| {
                ControlFrame::Settings(Settings { connection_credit, stream_credit, arrivals })
            },
        )
    }

    /// A frame of a known type, or one of an unknown type.
    fn any_frame() -> impl Strategy<Value = Result<ControlFrame, (u64, Vec<u8>)>> {
        prop_oneof![
            (0..=VARINT_MAX).prop_map(|limit| Ok(ControlFrame::MaxRlpData(limit))),
            (0..=VARINT_MAX, 0..=VARINT_MAX)
                .prop_map(|(stream, limit)| Ok(ControlFrame::MaxRlpStreamData { stream, limit })),
            (0..=VARINT_MAX, 0..=VARINT_MAX)
                .prop_map(|(stream, used)| Ok(ControlFrame::StreamReset { stream, used })),
            (0..=VARINT_MAX).prop_map(|leading| Ok(ControlFrame::Signal { leading })),
            (0..=VARINT_MAX).prop_map(|number| Ok(ControlFrame::Path(number))),
            any::<[u8; EARLY_SECRET_LEN]>()
                .prop_map(|secret| Ok(ControlFrame::Early(EarlySecret(secret.into())))),
            (0..=VARINT_MAX, any::<[u8; 8]>())
                .prop_map(|(number, id)| Ok(ControlFrame::ReceiverId { number, id: ReceiverId(id) })),
            (0..=VARINT_MAX, any::<bool>())
                .prop_map(|(stream, paused)| Ok(ControlFrame::Pause { stream, paused })),
            (9..=VARINT_MAX, prop::collection::vec(any::<u8>(), 0..200)).prop_map(Err),
        ]
    }

    #[test]
    fn the_worked_example_of_the_document_is_what_we_emit() {
        let frames = [
            ControlFrame::Settings(Settings {
                connection_credit: 2 << 20,
                stream_credit: 1 << 20,
                arrivals: false,
            }),
            ControlFrame::MaxRlpData(4 << 20),
            ControlFrame::MaxRlpStreamData { stream: 4, limit: 3_000_000 },
        ];
        let mut out = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut out));
        assert_eq!(out, documented("control"));
        assert_eq!(decoded(&out).as_deref(), Ok(&frames[..]));
    }

    #[test]
    fn missing_settings_mean_the_initial_credit() {
        let settings = Settings { stream_credit: 7, ..Settings::default() };
        assert_eq!(decoded(&[0, 4, 0x21, 0, 2, 7]), Ok(vec![ControlFrame::Settings(settings)]));
        assert_eq!(decoded(&[0, 0]), Ok(vec![ControlFrame::Settings(Settings::default())]));
    }

    #[test]
    fn faults_are_named_again_and_again() {
        for (bytes, why) in [
            (&[1, 1, 5][..], "no settings"),
            (&[0x21, 0], "no settings"),
            (&[0, 0, 0, 0], "settings twice"),
            (&[0, 4, 1, 2, 1, 3], "a setting twice"),
            (&[0, 4, 0x21, 2, 0x21, 3], "a setting twice"),
            (&[0, 1, 1], "not its fields"),
            (&[0, 0, 1, 2, 5, 5], "not its fields"),
            (&[0, 0, 2, 1, 5], "not its fields"),
            (&[0, 0, 6, 3, 1, 2, 3], "not its fields"),
            (&[0, 0, 7, 0], "not its fields"),
            (&[0, 0, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8], "not its fields"),
            (&[0, 0, 7, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "not its fields"),
            (&[0, 0x50, 0x01], "too long"),
            (&[0, 0, 0x21, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "too long"),
        ] {
            let mut decoder = ControlDecoder::default();
            assert_eq!(decode_all(&mut decoder, bytes).map(|_| ()), Err(Malformed), "{why}: {bytes:x?}");
            assert_eq!(decode_all(&mut decoder, &[]), Err(Malformed), "{why}: {bytes:x?}");
        }
    }

    #[test]
    fn the_longest_frame_is_skipped_when_unknown() {
        let mut bytes = vec![0, 0, 0x21, 0x50, 0x00];
        bytes.extend([0xaa; 4096]);
        bytes.extend([1, 1, 5]);
        assert_eq!(decoded(&bytes).unwrap()[1..], [ControlFrame::MaxRlpData(5)]);
    }

    proptest! {
        #[test]
        fn decoding_undoes_emit_however_the_stream_is_cut(
            settings in any_settings(),
            frames in prop::collection::vec(any_frame(), 0..10),
            chunk in 1..50_usize,
        ) {
            let mut bytes = Vec::new();
            settings.emit(&mut bytes);
            for frame in &frames {
                match frame {
                    Ok(frame) => frame.emit(&mut bytes),
                    Err((kind, payload)) => {
                        varint::emit(*kind, &mut bytes);
                        varint::emit(payload.len() as u64, &mut bytes);
                        bytes.extend(payload);
                    }
                }
            }
            let mut decoder = ControlDecoder::default();
            let mut out = Vec::new();
            for chunk in bytes.chunks(chunk) {
                out.extend(decode_all(&mut decoder, chunk).unwrap());
            }
            let expected: Vec<_> = [settings].into_iter().chain(frames.into_iter().flatten()).collect();
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn garbage_does_not_pile_up(
            chunks in prop::collection::vec(
                prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..1000),
                0..10,
            ),
        ) {
            let mut decoder = ControlDecoder::default();
            let mut frames = decode_all(&mut decoder, &[0, 0]);
            for chunk in chunks {
                if frames.is_err() {
                    break;
                }
                frames = decode_all(&mut decoder, &chunk);
                prop_assert!(decoder.buffer.len() <= PAYLOAD_LEN_MAX as usize + 16 + chunk.len());
            }
        }
    }
}
