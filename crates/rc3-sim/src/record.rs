//! The results of a run: one record for each flow.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::{FlowId, HostId, ReceiverCounters, SchemeId, SenderCounters};

/// From when to when a flow takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fct {
    /// From connect to the last byte at the receiver.
    #[default]
    ConnectToLastByte,
    /// From connect to the last acknowledgement at the sender.
    ConnectToLastAck,
}

/// The result of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Which flow.
    pub flow: FlowId,
    /// When the sender connected, from the beginning of the world.
    pub start: Duration,
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// Bytes of the application.
    pub bytes: u64,
    /// The scheme that carried it.
    pub scheme: SchemeId,
    /// Links between routers on the way.
    pub hops: u8,
    /// From connect to the last byte at the receiver, the papers' FCT; `None` if it never arrived.
    pub fct: Option<Duration>,
    /// From the first data sent to the last byte at the receiver.
    pub fct_data: Option<Duration>,
    /// From connect to the last acknowledgement at the sender.
    pub fct_acked: Option<Duration>,
    /// What the receiver counted.
    pub received: ReceiverCounters,
    /// What the sender counted.
    pub sent: SenderCounters,
}

impl FlowRecord {
    /// How long the flow took by this definition; `None` if it never ended.
    pub fn completion(&self, fct: Fct) -> Option<Duration> {
        match fct {
            Fct::ConnectToLastByte => self.fct,
            Fct::ConnectToLastAck => self.fct_acked,
        }
    }
}
