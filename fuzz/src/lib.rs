//! The claims the fuzzer tries to refute, one function per target. Ordinary tests replay the corpora through
//! the same functions (`crates/rc3-core/tests/corpus.rs`), so this file uses nothing but `rc3-core` and
//! `bytes`. [`operations`] and [`addresses`] also use `rc3-sim`; `messages.rs` belongs to another crate's tests.
//!
//! An input is refuted by a panic. What a target does with its bytes is part of the corpora: change it only
//! together with them.

pub mod addresses;
pub mod operations;

use bytes::Bytes;
use rc3_core::{
    internals::{
        keys::{Aead, OpenError, RlpKeys, SECRET_LEN},
        wire::{
            ControlDecoder, ControlFrame, DataHeader, Frame, Frames, Head, HeadDecoder, HeadEncoder,
            Malformed, complete_len, emit_complete, sack,
        },
    },
    units::{Level, Receipt, Span},
};

/// A payload of an RLP datagram is anything. Whatever parses lies inside it and means the same when it is
/// written and parsed again. Returns whether all of it parses.
pub fn frames(input: &[u8]) -> bool {
    let mut frames = Frames::new(input);
    let mut bytes = 0;
    while let Some(Ok(frame)) = frames.next() {
        match frame {
            Frame::Padding | Frame::Solicit | Frame::Probe => {}
            Frame::Complete(stream) => {
                let mut again = Vec::new();
                emit_complete(stream, &mut again);
                assert_eq!(again.len(), complete_len(stream));
                assert_eq!(Frames::new(&again).next(), Some(Ok(Frame::Complete(stream))));
            }
            Frame::Data(data) => {
                let content = &input[data.data.clone()];
                bytes += content.len();
                let len = content.len() as u64;
                assert_eq!(data.span().len(), len);
                let header = DataHeader {
                    stream: data.stream,
                    offset: data.offset,
                    final_size: data.final_size,
                    explicit_len: Some(len),
                    receipt: data.receipt,
                };
                let mut again = Vec::new();
                header.emit(&mut again);
                assert_eq!(again.len(), header.encoded_len());
                again.extend_from_slice(content);
                let Some(Ok(Frame::Data(parsed))) = Frames::new(&again).next() else {
                    panic!("{header:?} does not parse")
                };
                let fields = (parsed.stream, parsed.offset, parsed.final_size, parsed.receipt);
                assert_eq!(fields, (data.stream, data.offset, data.final_size, data.receipt));
                assert_eq!(&again[parsed.data], content);
            }
            Frame::Arrival(arrival) => {
                let mut again = Vec::new();
                arrival.emit(&mut again);
                assert_eq!(Frames::new(&again).next(), Some(Ok(Frame::Arrival(arrival))));
            }
            Frame::Order(order) => {
                let mut again = Vec::new();
                order.emit(&mut again);
                assert_eq!(Frames::new(&again).next(), Some(Ok(Frame::Order(order))));
            }
            Frame::Sack(frame) => {
                let spans: Vec<(Span, Receipt)> = frame.spans().collect();
                check_ascending(&spans);
                bytes += 2 * spans.len();
                let mut again = Vec::new();
                let written = sack::emit(frame.stream, spans.iter().copied(), usize::MAX, &mut again);
                assert_eq!(read_sack(&again), (frame.stream, spans[..written].to_vec()));
            }
        }
    }
    assert!(bytes <= input.len(), "more came out than went in");
    assert_eq!(frames.next(), None, "goes on after an error");
    Frames::new(input).all(|frame| frame.is_ok())
}

/// Spans from the input, of whatever order and size, as a SACK of limited length: what is written parses,
/// keeps to the limit and is a prefix of what was asked for.
pub fn sack(input: &[u8]) {
    let Some((&[stream, budget_high, budget_low], steps)) = input.split_first_chunk() else { return };
    let budget = usize::from(u16::from_be_bytes([budget_high, budget_low]));
    let mut at = 0_u64;
    let spans: Vec<(Span, Receipt)> = steps
        .chunks_exact(4)
        .map(|step| {
            // Steps back and empty spans are among them; the largest offsets come near to 2^62.
            let (shift, down) = (u32::from(step[0] & 0x3f) % 52, step[0] & 0x80 != 0);
            let gap = u64::from(step[1]) << shift;
            let start = if down { at.saturating_sub(gap) } else { (at + gap).min(1 << 61) };
            let len = u64::from(u16::from_be_bytes([step[2], step[3]]));
            at = start + len;
            (Span::new(start, at), Receipt(gap as u32))
        })
        .collect();
    let mut frame = Vec::new();
    let written = sack::emit(stream.into(), spans.iter().copied(), budget, &mut frame);
    assert!(frame.len() <= budget || frame.is_empty());
    if written == 0 {
        assert!(frame.is_empty());
    } else {
        assert_eq!(read_sack(&frame), (stream.into(), spans[..written].to_vec()));
    }
}

/// Head records mean the same however the primary cuts them into chunks, and when they are written anew. Returns whether
/// they have no fault.
pub fn head(input: &[u8]) -> bool {
    let Some((&cut, records)) = input.split_first() else { return false };
    let whole = decode_head(records, usize::MAX);
    assert_eq!(decode_head(records, usize::from(cut) + 1), whole);
    let (pieces, end) = whole;
    let Ok(end) = end else { return false };
    let mut encoder = HeadEncoder::default();
    let mut again = Vec::new();
    for piece in &pieces {
        if let Head::Run { offset, data } = piece {
            encoder.run(Span::new(*offset, offset + data.len() as u64), &mut again);
            again.extend_from_slice(data);
        }
    }
    encoder.finish(end, &mut again);
    assert_eq!(decode_head(&again, usize::MAX), (pieces, Ok(end)));
    true
}

/// The control stream means the same however it is cut, and its frames mean the same when they are written
/// again. Returns whether it has no fault.
pub fn control(input: &[u8]) -> bool {
    let Some((&cut, stream)) = input.split_first() else { return false };
    let whole = decode_control(stream, usize::MAX);
    assert_eq!(decode_control(stream, usize::from(cut) + 1), whole);
    let (frames, fault) = whole;
    let mut again = Vec::new();
    frames.iter().for_each(|frame| frame.emit(&mut again));
    assert_eq!(decode_control(&again, usize::MAX), (frames, None));
    fault.is_none()
}

/// A row of datagrams at one receiver: sealed by its peer, damaged on the way, repeated, or made up. It opens
/// what the peer sealed, each once and unchanged, across key updates, and nothing else.
pub fn open(input: &[u8]) {
    // The two top bits of the first byte say what happens to a datagram, the low ones its level.
    const DAMAGED: u8 = 0x40;
    const LOST: u8 = 0x80;
    const MADE_UP: u8 = 0xc0;
    // Few, so that inputs reach the next keys.
    const PACKETS_PER_KEY: u64 = 3;
    let (client, server) = ([1; SECRET_LEN], [2; SECRET_LEN]);
    let mut peer = RlpKeys::new(&Aead, [&client, &server], true);
    peer.seal.packets_per_key = PACKETS_PER_KEY;
    let mut keys = RlpKeys::new(&Aead, [&client, &server], false);
    // The generation of the last datagram that came.
    let mut reached = 0;
    let mut rest = input;
    while let Some((&[kind, len], tail)) = rest.split_first_chunk() {
        let (content, tail) = tail.split_at(tail.len().min(len.into()));
        rest = tail;
        if kind & 0xc0 == MADE_UP {
            let mut made_up = content.to_vec();
            assert!(keys.open.open(&mut made_up).is_err(), "a forgery authenticates");
            continue;
        }
        let level = Level::new(kind & 0x0f).filter(|level| !level.is_primary()).unwrap_or(Level::FIRST);
        let mut sealed = Vec::new();
        let sealing = peer.seal.begin(level, &mut sealed);
        sealed.extend_from_slice(content);
        let packet_number = peer.seal.finish(sealing, &mut sealed);
        if kind & 0xc0 == DAMAGED {
            // One bit is damaged; which one comes from the content.
            let bit = content
                .iter()
                .fold(usize::from(kind), |bit, &byte| bit.wrapping_mul(31).wrapping_add(byte.into()));
            let mut damaged = sealed.clone();
            damaged[bit / 8 % sealed.len()] ^= 1 << (bit % 8);
            assert!(keys.open.open(&mut damaged).is_err(), "bit {bit} may change");
        }
        if kind & 0xc0 == LOST {
            continue;
        }
        let generation = packet_number / PACKETS_PER_KEY;
        if generation > reached + 1 {
            // Of the generation before this one nothing came: the receiver cannot follow (docs/WIRE.md, key
            // update).
            assert_eq!(keys.open.open(&mut sealed), Err(OpenError::Unauthentic));
            continue;
        }
        reached = generation;
        let mut copy = sealed.clone();
        let opened = keys.open.open(&mut sealed).expect("an honest datagram");
        assert_eq!((opened.level, opened.packet_number), (level, packet_number));
        assert_eq!(&sealed[opened.payload], content);
        assert_eq!(keys.open.open(&mut copy), Err(OpenError::Duplicate));
    }
}

fn check_ascending(spans: &[(Span, Receipt)]) {
    assert!(spans.iter().all(|(span, _)| !span.is_empty()));
    assert!(spans.windows(2).all(|pair| pair[0].0.end < pair[1].0.start));
}

fn read_sack(frame: &[u8]) -> (u64, Vec<(Span, Receipt)>) {
    let mut frames = Frames::new(frame);
    let Some(Ok(Frame::Sack(sack))) = frames.next() else { panic!("not one sack: {frame:x?}") };
    assert_eq!(frames.next(), None);
    (sack.stream, sack.spans().collect())
}

/// What the records say, with pieces of one RUN and consecutive SKIPs joined, and the final size or the
/// fault.
fn decode_head(records: &[u8], chunk_len: usize) -> (Vec<Head>, Result<u64, Malformed>) {
    let mut decoder = HeadDecoder::default();
    let mut pieces: Vec<Head> = Vec::new();
    for chunk in records.chunks(chunk_len) {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next() {
                Ok(Some(piece)) => join(&mut pieces, piece),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next(), Err(error), "a fault must stay one");
                    return (pieces, Err(error));
                }
            }
        }
    }
    let end = decoder.finish();
    assert!(end.is_err() || end == Ok(decoder.position()));
    (pieces, end)
}

fn join(pieces: &mut Vec<Head>, piece: Head) {
    match (pieces.last_mut(), piece) {
        (Some(Head::Run { offset, data }), Head::Run { offset: at, data: more })
            if *offset + data.len() as u64 == at =>
        {
            *data = [&data[..], &more].concat().into();
        }
        (Some(Head::Skip(span)), Head::Skip(more)) if span.end == more.start => span.end = more.end,
        (_, piece) => pieces.push(piece),
    }
}

fn decode_control(stream: &[u8], chunk_len: usize) -> (Vec<ControlFrame>, Option<Malformed>) {
    let mut decoder = ControlDecoder::default();
    let mut frames = Vec::new();
    for chunk in stream.chunks(chunk_len) {
        decoder.push(chunk);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next(), Err(error), "a fault must stay one");
                    return (frames, Some(error));
                }
            }
        }
    }
    (frames, None)
}
