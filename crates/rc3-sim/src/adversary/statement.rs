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

    /// Whether an object of a rule has it.
    pub(super) fn is(&self, object: &str) -> bool {
        let name = match self {
            Self::Arrival(_) => "arrival",
            Self::Order(_) => "order",
            Self::Sack { .. } => "sack",
            Self::Complete(_) => "complete",
        };
        object == "rlp" || object == name
    }
}
