//! What a connection has beside the primary when both sides speak rc3: the RLP loop, the control stream, credit
//! in both directions, SACKs that are due.

mod recv_credit;
mod send_credit;

use std::collections::BTreeMap;

use self::{recv_credit::RecvCredit, send_credit::SendCredit};
use crate::{
    config::{RlpMode, TransportConfig},
    machines::rlp::{Rlp, arrivals::Arrivals, openers::Openers},
    quic::StreamId,
    units::Level,
    wire::control::{ControlDecoder, Settings},
};

/// What rc3 has beside the primary.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// What sends. `None` until there are keys: of the handshake, or on clients of early data.
    pub(crate) rlp: Option<Rlp>,
    pub(crate) openers: Openers,
    /// The stream our control frames go out on.
    pub(crate) control: Option<StreamId>,
    pub(crate) decoder: ControlDecoder,
    pub(crate) send_credit: SendCredit,
    pub(crate) recv_credit: RecvCredit,
    /// Streams whose RLP data wants a SACK.
    pub(crate) sacks: BTreeMap<StreamId, SackDue>,
    /// When RLP's datagrams came.
    pub(crate) arrivals: Arrivals,
    /// Whether we want to hear the same of ours.
    wants_arrivals: bool,
}

/// A SACK that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SackDue {
    /// The best level that the data came on.
    pub(crate) level: Level,
    /// All of what lies from there on is to be told, in as many SACKs as it takes; otherwise one is enough.
    pub(crate) from: Option<u64>,
}

impl Overlay {
    pub(crate) fn new(config: &TransportConfig) -> Self {
        Self {
            rlp: None,
            openers: Openers::default(),
            control: None,
            decoder: ControlDecoder::default(),
            send_credit: SendCredit::default(),
            recv_credit: RecvCredit::new(config),
            sacks: BTreeMap::new(),
            arrivals: Arrivals::default(),
            wants_arrivals: config.rlp == RlpMode::Guard,
        }
    }

    /// The first frame on the control stream.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            connection_credit: self.recv_credit.window(),
            stream_credit: self.recv_credit.stream_window(),
            arrivals: self.wants_arrivals,
        }
    }

    /// RLP data came on `stream` at `level`: a SACK is due at the best level seen since the last.
    pub(crate) fn owe_sack(&mut self, stream: StreamId, level: Level) {
        let due = self.sacks.entry(stream).or_insert(SackDue { level, from: None });
        due.level = due.level.min(level);
    }
}
