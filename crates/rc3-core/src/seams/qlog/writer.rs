//! Two writers to one file: quinn-proto's and rc3's.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use ::qlog::{
    Configuration, QLOG_VERSION, TraceSeq, VantagePoint, VantagePointType,
    events::{EventImportance, JsonEvent},
    streamer::QlogStreamer,
};
#[cfg(feature = "kickass")]
use kickass::endpoint::{Cause, Mode};
use serde_json::{Value, json};

use super::{QlogEvent, Trace};
use crate::{
    quic::{Side, StreamId, VarInt},
    units::Span,
};

type Output = Box<dyn io::Write + Send>;
type Open = dyn Fn(Side, SocketAddr) -> Option<Output> + Send + Sync;

/// Where the qlog of each connection goes.
#[derive(Clone)]
pub struct Qlog(Arc<Open>);

impl Qlog {
    /// `open` returns the file for a connection with this peer as client or server, or `None` to skip it. It is called,
    /// and the file written, while the endpoint works: both should be quick, so buffer.
    pub fn new(open: impl Fn(Side, SocketAddr) -> Option<Output> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Qlog")
    }
}

/// One file with two writers. They alternate: both belong to one connection, and each writes whole records.
#[derive(Clone)]
pub(crate) struct SharedOutput(Arc<Mutex<Output>>);

impl io::Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl SharedOutput {
    /// For the second writer, whose header is superfluous.
    pub(crate) fn without_header(self) -> Box<dyn io::Write + Send + Sync> {
        Box::new(WithoutHeader { output: self, header_over: false })
    }
}

/// Drops the first record: quinn-proto's header does not know whether it is client or server, rc3's does.
struct WithoutHeader {
    output: SharedOutput,
    header_over: bool,
}

impl io::Write for WithoutHeader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.header_over {
            return self.output.write(bytes);
        }
        match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                self.header_over = true;
                Ok(end + 1)
            }
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// rc3's writer.
pub(super) struct Writer {
    streamer: QlogStreamer,
    start: Instant,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("start", &self.start).finish_non_exhaustive()
    }
}

/// Opens the file for a connection that starts now and writes its header.
pub(crate) fn begin(
    qlog: Option<&Qlog>,
    now: Instant,
    side: Side,
    remote: SocketAddr,
) -> Option<(Trace, SharedOutput)> {
    let output = SharedOutput(Arc::new(Mutex::new((qlog?.0)(side, remote)?)));
    let ty = match side {
        Side::Client => VantagePointType::Client,
        Side::Server => VantagePointType::Server,
    };
    let vantage_point = VantagePoint { name: Some("rc3".to_owned()), ty, flow: None };
    let configuration = Configuration { time_offset: Some(0.0), original_uris: None };
    let trace = TraceSeq::new(vantage_point, None, None, Some(configuration), None);
    let mut streamer = QlogStreamer::new(
        QLOG_VERSION.to_owned(),
        Some(format!("rc3 with {remote}")),
        None,
        None,
        now,
        trace,
        EventImportance::Extra,
        Box::new(output.clone()),
    );
    if let Err(error) = streamer.start_log() {
        tracing::warn!(%error, "no qlog");
        return None;
    }
    Some((Trace { writer: Some(Writer { streamer, start: now }) }, output))
}

impl Writer {
    pub(super) fn write(&mut self, now: Instant, event: &QlogEvent) {
        let (name, data) = self.describe(event);
        let event = JsonEvent { time: 0.0, importance: EventImportance::Core, name: name.to_owned(), data };
        if let Err(error) = self.streamer.add_event_with_instant(event, now) {
            tracing::debug!(%error, "qlog event lost");
        }
    }

    fn describe(&self, event: &QlogEvent) -> (&'static str, Value) {
        match event {
            QlogEvent::PacketSent { level, stream, span, datagram_len } => (
                "rlp:packet_sent",
                json!({
                    "level": level.get(), "stream_id": id(*stream), "offset": span.start,
                    "length": span.len(), "raw": { "length": datagram_len },
                }),
            ),
            QlogEvent::PacketReceived { level, stream, offset, taken } => (
                "rlp:packet_received",
                json!({
                    "level": level.get(), "stream_id": id(*stream), "offset": offset,
                    "length": taken.map(|taken| taken.new + taken.duplicate + taken.refused),
                    "new": taken.map(|taken| taken.new),
                }),
            ),
            QlogEvent::PacketDiscarded => ("rlp:packet_discarded", json!({})),
            QlogEvent::SackSent { level, stream, spans } => (
                "rlp:sack_sent",
                json!({ "level": level.get(), "stream_id": id(*stream), "spans": pairs(spans) }),
            ),
            QlogEvent::SackReceived { level, stream, spans } => (
                "rlp:sack_received",
                json!({
                    "level": level.get(), "stream_id": stream.into_inner(), "spans": pairs(spans),
                }),
            ),
            QlogEvent::LevelChanged { old, new, packets } => {
                ("rlp:level_changed", json!({ "old": old.get(), "new": new.get(), "packets_sent": packets }))
            }
            QlogEvent::PathChanged { remote } => {
                ("rlp:path_changed", json!({ "remote": remote.to_string() }))
            }
            #[cfg(feature = "kickass")]
            QlogEvent::ModeChanged { mode } => {
                let (mode, trigger) = match mode {
                    Mode::KickAss => ("kickass", "signal"),
                    Mode::Tcp(Cause::Silence) => ("tcp", "silence"),
                    Mode::Tcp(Cause::Congestion) => ("tcp", "congestion"),
                };
                ("rc3:mode_changed", json!({ "mode": mode, "trigger": trigger }))
            }
            QlogEvent::WindowGrown { window, bytes } => {
                ("rc3:window_grown", json!({ "window": window, "bytes": bytes }))
            }
        }
    }
}

fn id(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// Spans as first offset and length, as ranges are in the rest of the file's events.
fn pairs(spans: &[Span]) -> Vec<[u64; 2]> {
    spans.iter().map(|span| [span.start, span.len()]).collect()
}
