//! The events of a connection as a qlog file: quinn-proto writes the primary's, rc3 those of the RLP loop with the same
//! clock (docs/OBSERVABILITY.md). Without the feature `qlog` nothing of it is compiled.
//!
//! The format is qlog 0.3 as JSON text sequences (RFC 7464). Time starts with the connection.

use std::{net::SocketAddr, time::Instant};

use kickass::endpoint::Mode;

use crate::{
    quic::{StreamId, VarInt},
    structures::taken::ReadBytes,
    units::{Level, Span},
};

#[cfg(feature = "qlog")]
mod frames;
#[cfg(feature = "qlog")]
mod packets;
#[cfg(feature = "qlog")]
mod writer;

#[cfg(feature = "qlog")]
pub(crate) use packets::{LastPackets, PacketDirection};
#[cfg(feature = "qlog")]
pub use writer::Qlog;
#[cfg(feature = "qlog")]
pub(crate) use writer::{Begun, begin};

/// An event that quinn-proto does not know.
#[derive(Debug)]
#[cfg_attr(not(feature = "qlog"), expect(dead_code, reason = "read by the writer"))]
pub(crate) enum QlogEvent {
    PacketSent { level: Level, stream: StreamId, span: Span, datagram_len: usize },
    PacketReceived { level: Level, stream: StreamId, offset: u64, taken: Option<ReadBytes> },
    PacketDiscarded,
    SackSent { level: Level, stream: StreamId, spans: Vec<Span> },
    SackReceived { level: Level, stream: VarInt, spans: Vec<Span> },
    LevelChanged { old: Level, new: Level, packets: u64 },
    PathChanged { remote: SocketAddr },
    WindowGrown { window: &'static str, bytes: u64 },
    ModeChanged { mode: Mode },
}

/// The file of one connection, if there is one.
#[derive(Default)]
pub(crate) struct Trace {
    #[cfg(feature = "qlog")]
    writer: Option<writer::Writer>,
}

impl Trace {
    /// Writes an event; without a log the event is not even built.
    #[cfg_attr(not(feature = "qlog"), expect(unused_variables, reason = "there is no log"))]
    pub(crate) fn emit(&mut self, now: Instant, event: impl FnOnce() -> QlogEvent) {
        #[cfg(feature = "qlog")]
        if let Some(writer) = &mut self.writer {
            writer.write(now, &event());
        }
    }
}
