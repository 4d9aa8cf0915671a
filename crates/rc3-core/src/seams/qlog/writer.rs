//! Two writers to one file: quinn-proto's and rc3's.

use std::{
    io::{self, Write as _},
    mem,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kickass::endpoint::{Cause, Mode};
use serde_json::{Value, json};

use super::{
    QlogEvent, Trace,
    frames::INTEGER_MAX,
    packets::{LastPackets, PacketDirection},
};
use crate::{
    quic::{ConnectionId, Side, StreamId, VarInt},
    shows::shows,
    units::Span,
};

type QlogOutput = Box<dyn io::Write + Send>;
type OpenQlog = dyn Fn(Side, SocketAddr) -> Option<QlogOutput> + Send + Sync;

/// Where the qlog of each connection goes.
#[derive(Clone)]
pub struct Qlog(Arc<OpenQlog>);

impl Qlog {
    /// `open` returns the file for a connection with this peer as client or server, or `None` to skip it. It is called,
    /// and the file written, while the endpoint works: both should be quick, so buffer.
    pub fn new(open: impl Fn(Side, SocketAddr) -> Option<QlogOutput> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

shows!(Qlog:);

/// One file with two writers: quinn-proto's and rc3's. They alternate; both belong to one connection.
struct Log {
    output: QlogOutput,
    /// The connection's id in files of both ends: the one that the client chose for the server's first packets.
    group_id: String,
    packets: LastPackets,
}

impl Log {
    /// Writes one JSON text sequence (RFC 7464).
    fn record(&mut self, record: &Value) -> io::Result<()> {
        self.output.write_all(b"\x1e")?;
        serde_json::to_writer(&mut self.output, record)?;
        self.output.write_all(b"\n")
    }

    fn event(&mut self, time: f64, name: &str, data: &Value) -> io::Result<()> {
        self.record(&json!({ "time": time, "name": name, "data": data, "group_id": self.group_id }))
    }

    /// Completes an event of quinn-proto's and writes it.
    fn completed(&mut self, mut event: Value) -> io::Result<()> {
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        let mut data = event["data"].take();
        let direction = match &*name {
            "transport:packet_sent" => Some(PacketDirection::Sent),
            "transport:packet_received" => Some(PacketDirection::Received),
            _ => None,
        };
        if let Some(header) = data.get_mut("header").and_then(Value::as_object_mut) {
            // Without the packet's own header; the length of the whole packet is in `raw`.
            header.remove("length");
        }
        let number = data["header"]["packet_number"].as_u64();
        if let (Some(direction), Some(number)) = (direction, number)
            && let Some(packet) = self.packets.take(direction, number)
        {
            data["raw"] = json!({ "length": packet.length, "payload_length": packet.payload_length });
            data["frames"] = packet.frames.into();
        }
        if let Some(fields) = data.as_object_mut() {
            // No limit yet.
            fields.retain(|field, value| field != "ssthresh" || value.as_u64() <= Some(INTEGER_MAX));
        }
        self.event(event["time"].as_f64().unwrap_or_default(), &name, &data)
    }
}

type SharedLog = Arc<Mutex<Log>>;

fn locked(log: &SharedLog) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of quinn-proto's writer. Its events lack frames, lengths and a common `group_id`, and its header does not
/// know whether it is client or server.
pub(crate) struct Completing {
    log: SharedLog,
    header_over: bool,
    /// The beginning of a record.
    partial: Vec<u8>,
}

impl io::Write for Completing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let record = mem::take(&mut self.partial);
                if mem::replace(&mut self.header_over, true) {
                    let json = record.strip_prefix(b"\x1e").unwrap_or(&record);
                    locked(&self.log).completed(serde_json::from_slice(json)?)?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        locked(&self.log).output.flush()
    }
}

/// rc3's writer.
pub(super) struct Writer {
    log: SharedLog,
    start: Instant,
}

/// The log of a connection that starts.
pub(crate) struct Begun {
    /// rc3's part.
    pub(crate) trace: Trace,
    /// For quinn-proto's writer.
    pub(crate) output: Completing,
    /// Where the keys leave plaintext.
    pub(crate) packets: LastPackets,
}

/// Opens the file for a connection that starts now and writes its header. `original` is the id that the client chose
/// for the server's first packets.
pub(crate) fn begin(
    qlog: Option<&Qlog>,
    now: Instant,
    side: Side,
    remote: SocketAddr,
    original: ConnectionId,
) -> Option<Begun> {
    let output = (qlog?.0)(side, remote)?;
    let packets = LastPackets::default();
    let mut log = Log { output, group_id: original.to_string(), packets: packets.clone() };
    let vantage_point = if side == Side::Client { "client" } else { "server" };
    let header = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": format!("rc3 with {remote}"),
        "trace": {
            "vantage_point": { "name": "rc3", "type": vantage_point },
            "common_fields": {
                "group_id": log.group_id, "protocol_type": ["QUIC"], "time_format": "relative",
                "reference_time": 0,
            },
            "configuration": { "time_offset": 0 },
        },
    });
    if let Err(error) = log.record(&header) {
        tracing::warn!(%error, "no qlog");
        return None;
    }
    let log = Arc::new(Mutex::new(log));
    let output = Completing { log: log.clone(), header_over: false, partial: Vec::new() };
    Some(Begun { trace: Trace { writer: Some(Writer { log, start: now }) }, output, packets })
}

/// Milliseconds with the precision of quinn-proto's events, so that events of both stay in order.
fn milliseconds(since: Duration) -> f64 {
    (since.as_secs_f32() * 1000.0).to_string().parse().unwrap_or_default()
}

impl Writer {
    pub(super) fn write(&mut self, now: Instant, event: &QlogEvent) {
        let (name, data) = self.describe(event);
        let time = milliseconds(now.saturating_duration_since(self.start));
        if let Err(error) = locked(&self.log).event(time, name, &data) {
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
            QlogEvent::PacketReceived { level, stream, offset, taken } => {
                let mut data = json!({ "level": level.get(), "stream_id": id(*stream), "offset": offset });
                if let Some(taken) = taken {
                    data["length"] = (taken.new + taken.duplicate + taken.refused).into();
                    data["new"] = taken.new.into();
                }
                ("rlp:packet_received", data)
            }
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
