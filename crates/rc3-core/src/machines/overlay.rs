//! What a connection adds to the primary if both sides use rc3: the RLP loop, the control stream, credit in both
//! directions, due SACKs.

mod recv_credit;
mod send_credit;
pub(crate) mod transmit;

use std::collections::BTreeMap;

use self::{recv_credit::RecvCredit, send_credit::SendCredit};
use crate::{
    config::{RlpMode, TransportConfig},
    machines::rlp::{Rlp, arrivals::ArrivalCounts, openers::Openers},
    quic::StreamId,
    units::Level,
    wire::control::{ControlDecoder, Settings},
};

/// The rc3 part of a connection.
pub(crate) struct Overlay {
    /// The sending side. `None` until there are keys: of the handshake, or on clients of early data.
    pub(crate) rlp: Option<Rlp>,
    pub(crate) openers: Openers,
    /// The local control stream.
    pub(crate) control: Option<StreamId>,
    pub(crate) decoder: ControlDecoder,
    pub(crate) send_credit: SendCredit,
    pub(crate) recv_credit: RecvCredit,
    /// Streams whose RLP data needs a SACK.
    pub(crate) sacks: BTreeMap<StreamId, SackDue>,
    /// Arrival times of RLP's datagrams.
    pub(crate) arrivals: ArrivalCounts,
}

/// A due SACK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SackDue {
    /// The best level of the data.
    pub(crate) level: Level,
    /// If set, everything from this offset on must be acknowledged, in as many SACKs as needed; otherwise one is
    /// enough.
    pub(crate) from: Option<u64>,
}

impl Overlay {
    /// `rlp_room`: bytes that RLP may bring at first.
    pub(crate) fn new(config: &TransportConfig, rlp_room: u64) -> Self {
        Self {
            rlp: None,
            openers: Openers::default(),
            control: None,
            decoder: ControlDecoder::default(),
            send_credit: SendCredit::default(),
            recv_credit: RecvCredit::new(config, rlp_room),
            sacks: BTreeMap::new(),
            arrivals: ArrivalCounts::default(),
        }
    }

    /// The first frame on the control stream.
    pub(crate) fn settings(&self, config: &TransportConfig) -> Settings {
        Settings {
            connection_credit: self.recv_credit.window(),
            stream_credit: self.recv_credit.stream_window,
            arrivals: config.rlp == RlpMode::Guard,
        }
    }

    /// The connection is lost.
    pub(crate) fn stop(&mut self) {
        self.sacks.clear();
        if let Some(rlp) = &mut self.rlp {
            rlp.stop();
        }
    }

    /// RLP data arrived on `stream` at `level`: a SACK is due at the best level since the last.
    pub(crate) fn owe_sack(&mut self, stream: StreamId, level: Level) {
        let due = self.sacks.entry(stream).or_insert(SackDue { level, from: None });
        due.level = due.level.min(level);
    }
}
