//! What a receiver states to its sender in RLP datagrams, as values.

use rc3_core::{
    internals::wire::{Arrival, Frame, Frames, Order, emit_complete, sack},
    units::{Receipt, Span},
};

/// Bytes of a SACK at most: what fits into a datagram of any path.
const SACK_BUDGET: usize = 1150;

/// A frame of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    Arrival(Arrival),
    Order(Order),
    Sack { stream: u64, spans: Vec<(Span, Receipt)> },
    Complete(u64),
}

/// Which packets or frames of the liar a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ARRIVAL frames.
    Arrival,
    /// ORDER frames.
    Order,
    /// SACK frames.
    Sack,
    /// COMPLETE frames.
    Complete,
    /// All of these.
    Rlp,
    /// QUIC packets, after the handshake.
    Primary,
}

impl Kind {
    /// Names in the text of a lie.
    pub(super) const NAMES: [(&'static str, Self); 6] = [
        ("arrival", Self::Arrival),
        ("order", Self::Order),
        ("sack", Self::Sack),
        ("complete", Self::Complete),
        ("rlp", Self::Rlp),
        ("primary", Self::Primary),
    ];

    pub(super) fn has(self, statement: &Statement) -> bool {
        self == Self::Rlp || self == statement.kind()
    }
}

impl Statement {
    /// The statements of a payload; `None` if there is anything else in it.
    pub(super) fn parse(payload: &[u8]) -> Option<Vec<Self>> {
        let frames = Frames::new(payload).filter(|frame| !matches!(frame, Ok(Frame::Padding)));
        frames
            .map(|frame| match frame.ok()? {
                Frame::Arrival(arrival) => Some(Self::Arrival(arrival)),
                Frame::Order(order) => Some(Self::Order(order)),
                Frame::Sack(sack) => Some(Self::Sack { stream: sack.stream, spans: sack.spans().collect() }),
                Frame::Complete(stream) => Some(Self::Complete(stream)),
                _ => None,
            })
            .collect()
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Arrival(arrival) => arrival.emit(out),
            Self::Order(order) => order.emit(out),
            Self::Sack { stream, spans } => {
                sack::emit(*stream, spans.iter().copied(), SACK_BUDGET, out);
            }
            Self::Complete(stream) => emit_complete(*stream, out),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Arrival(_) => Kind::Arrival,
            Self::Order(_) => Kind::Order,
            Self::Sack { .. } => Kind::Sack,
            Self::Complete(_) => Kind::Complete,
        }
    }
}
