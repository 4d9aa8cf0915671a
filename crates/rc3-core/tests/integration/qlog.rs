//! The qlog file: every record is valid, and the records agree with the counters.
#![cfg(feature = "qlog")]

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use rc3_core::{Congestion, Qlog, RlpMode, Side, units::Rate};
use rc3_sim::{Impairments, LinkConfig, Pair, PairConfig};
use serde_json::Value;

/// What was written, per side.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<BTreeMap<bool, Vec<u8>>>>);

struct File(Files, bool);

impl io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().entry(self.1).or_default().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files {
    fn qlog(&self) -> Qlog {
        let files = self.clone();
        Qlog::new(move |side, _| Some(Box::new(File(files.clone(), side == Side::Client))))
    }

    /// The header and the events of one side. Panics unless all of it is JSON text sequences (RFC 7464).
    fn records(&self, client: bool) -> (Value, Vec<Value>) {
        let text = String::from_utf8(self.0.lock().unwrap()[&client].clone()).unwrap();
        let mut records = text.split('\x1e');
        assert_eq!(records.next(), Some(""), "something before the first record");
        let mut records = records.map(|record| {
            assert!(record.ends_with('\n'), "cut short: {record}");
            serde_json::from_str::<Value>(record).unwrap_or_else(|error| panic!("{error}: {record}"))
        });
        (records.next().unwrap(), records.collect())
    }
}

fn count(events: &[Value], name: &str) -> u64 {
    events.iter().filter(|event| event["name"] == name).count() as u64
}

fn sum(events: &[Value], name: &str, field: &str) -> u64 {
    events.iter().filter(|event| event["name"] == name).map(|e| e["data"][field].as_u64().unwrap()).sum()
}

/// Required fields of a record and their types, from draft-ietf-quic-qlog-main-schema-04 §3 and
/// draft-ietf-quic-qlog-quic-events-02, which qlog 0.3 names.
mod schema {
    use serde_json::Value;

    /// The greatest integer that every reader of JSON represents exactly.
    const INTEGER_MAX: u64 = (1 << 53) - 1;

    /// What a field must be.
    #[derive(Clone, Copy)]
    enum Kind {
        Number,
        /// `uint64`: text beyond the integers of JSON.
        Integer,
        Text,
        Flag,
        Array,
    }
    use Kind::{Array, Flag, Integer, Number, Text};

    impl Kind {
        fn is(self, value: &Value) -> bool {
            match self {
                Self::Number => value.is_number(),
                Self::Integer => {
                    value.is_u64() || value.as_str().is_some_and(|text| text.parse::<u64>().is_ok())
                }
                Self::Text => value.is_string(),
                Self::Flag => value.is_boolean(),
                Self::Array => value.is_array(),
            }
        }
    }

    fn has(record: &Value, fields: &[(&str, Kind)]) {
        for (field, kind) in fields {
            assert!(kind.is(&record[*field]), "{field} is missing or of a wrong type: {record}");
        }
    }

    /// No nulls, and no integers that readers round.
    fn numbers(value: &Value) {
        match value {
            Value::Null => panic!("a null"),
            Value::Number(number) => {
                assert!(number.as_u64().is_none_or(|n| n <= INTEGER_MAX), "{number} is rounded");
            }
            Value::Array(values) => values.iter().for_each(numbers),
            Value::Object(fields) => fields.values().for_each(numbers),
            Value::Bool(_) | Value::String(_) => {}
        }
    }

    pub(super) fn header(record: &Value) {
        numbers(record);
        has(record, &[("qlog_version", Text), ("qlog_format", Text)]);
        let trace = &record["trace"];
        assert!(["client", "server"].contains(&trace["vantage_point"]["type"].as_str().unwrap()));
        let common = &trace["common_fields"];
        has(common, &[("group_id", Text), ("time_format", Text), ("reference_time", Number)]);
        assert_eq!(common["protocol_type"], serde_json::json!(["QUIC"]));
    }

    pub(super) fn event(record: &Value) {
        numbers(record);
        has(record, &[("time", Number), ("name", Text), ("group_id", Text)]);
        let data = &record["data"];
        match record["name"].as_str().unwrap() {
            "transport:packet_sent" | "transport:packet_received" => packet(data),
            "recovery:packet_lost" => header_of_packet(&data["header"]),
            "recovery:metrics_updated" => metrics(data),
            "rlp:packet_sent" => {
                has(data, &[("level", Integer), ("stream_id", Integer), ("offset", Integer)]);
                has(&data["raw"], &[("length", Integer)]);
            }
            "rlp:packet_received" => has(data, &[("level", Integer), ("stream_id", Integer)]),
            "rlp:sack_sent" | "rlp:sack_received" => has(data, &[("spans", Array)]),
            "rlp:level_changed" => has(data, &[("old", Integer), ("new", Integer)]),
            "rlp:packet_discarded" => {}
            "rc3:window_grown" => has(data, &[("window", Text), ("bytes", Integer)]),
            other => panic!("{other} is unknown"),
        }
    }

    fn header_of_packet(header: &Value) {
        has(header, &[("packet_type", Text), ("packet_number", Integer)]);
        let packet_type = header["packet_type"].as_str().unwrap();
        assert!(["initial", "handshake", "0RTT", "1RTT"].contains(&packet_type), "{packet_type}");
        assert!(header.get("length").is_none(), "a field of long headers alone");
    }

    fn packet(data: &Value) {
        header_of_packet(&data["header"]);
        // quinn-proto opens a client's first packet before its connection exists.
        let Some(frames) = data["frames"].as_array() else {
            assert!(data["header"]["packet_type"] == "initial" && data["header"]["packet_number"] == 0);
            return;
        };
        assert!(!frames.is_empty(), "a packet without frames: {data}");
        frames.iter().for_each(frame);
        let raw = &data["raw"];
        has(raw, &[("length", Integer), ("payload_length", Integer)]);
        assert!(raw["length"].as_u64() > raw["payload_length"].as_u64(), "{raw}");
    }

    fn frame(frame: &Value) {
        let fields: &[_] = match frame["frame_type"].as_str().unwrap() {
            "padding" => &[("payload_length", Integer)],
            "ping" | "handshake_done" => &[],
            "ack" => &[("ack_delay", Number), ("acked_ranges", Array)],
            "reset_stream" => &[("stream_id", Integer), ("error_code", Integer), ("final_size", Integer)],
            "stop_sending" => &[("stream_id", Integer), ("error_code", Integer)],
            "crypto" => &[("offset", Integer), ("length", Integer)],
            "stream" => &[("stream_id", Integer), ("offset", Integer), ("length", Integer), ("fin", Flag)],
            "new_token" => &[],
            "max_data" => &[("maximum", Integer)],
            "max_stream_data" => &[("stream_id", Integer), ("maximum", Integer)],
            "max_streams" => &[("stream_type", Text), ("maximum", Integer)],
            "data_blocked" => &[("limit", Integer)],
            "stream_data_blocked" => &[("stream_id", Integer), ("limit", Integer)],
            "streams_blocked" => &[("stream_type", Text), ("limit", Integer)],
            "new_connection_id" => {
                &[("sequence_number", Integer), ("retire_prior_to", Integer), ("connection_id", Text)]
            }
            "retire_connection_id" => &[("sequence_number", Integer)],
            "connection_close" => &[("error_space", Text), ("error_code", Integer)],
            // An extension that the schema does not name: IMMEDIATE_ACK.
            "unknown" if frame["raw_frame_type"] == 0x1f => &[("raw_frame_type", Integer)],
            other => panic!("{other} is not expected here: {frame}"),
        };
        has(frame, fields);
    }

    /// Each field is optional, and numbers they are.
    fn metrics(data: &Value) {
        let fields = data.as_object().unwrap();
        assert!(!fields.is_empty());
        for (field, value) in fields {
            assert!(Number.is(value), "{field}: {value}");
        }
    }
}

#[test]
fn both_files_follow_the_schema_and_have_one_group_id() {
    for rlp in [RlpMode::Trust, RlpMode::Off] {
        for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
            let files = Files::default();
            let rate = Rate::from_bits_per_second(20_000_000);
            let link = LinkConfig { rate, delay: Duration::from_millis(10), ..LinkConfig::default() };
            let mut config = PairConfig::symmetric(link, 50_000);
            for side in [&mut config.client, &mut config.server] {
                side.rlp(rlp).congestion(congestion).qlog(Some(files.qlog()));
            }
            let mut pair = Pair::new(config);
            let report = pair.flow(500_000, Duration::from_secs(60)).expect("it arrives");

            let [client, server] = [true, false].map(|side| files.records(side));
            for (header, events) in [&client, &server] {
                schema::header(header);
                events.iter().for_each(schema::event);
                let group = &header["trace"]["common_fields"]["group_id"];
                assert!(events.iter().all(|event| &event["group_id"] == group), "groups differ in a file");
            }
            let groups = [&client, &server].map(|(header, _)| &header["trace"]["common_fields"]["group_id"]);
            assert_eq!(groups[0], groups[1]);

            // Frames are those that quinn-proto has counted.
            assert_eq!(frames(&client.1, "transport:packet_sent", "stream"), report.sender.frame_tx.stream);
            assert_eq!(frames(&client.1, "transport:packet_received", "ack"), report.sender.frame_rx.acks);
            let received = frames(&server.1, "transport:packet_received", "stream");
            assert_eq!(received, report.receiver.frame_rx.stream);
            // Lengths are those of its datagrams, into which it has coalesced whole packets.
            let lengths = client.1.iter().filter(|event| event["name"] == "transport:packet_sent");
            let bytes: u64 = lengths.map(|event| event["data"]["raw"]["length"].as_u64().unwrap()).sum();
            assert_eq!(bytes, report.sender.udp_tx.bytes);
        }
    }
}

/// Frames of one type in the packets of these events.
fn frames(events: &[Value], name: &str, frame_type: &str) -> u64 {
    let packets = events.iter().filter(|event| event["name"] == name);
    let frames = packets.filter_map(|event| event["data"]["frames"].as_array()).flatten();
    frames.filter(|frame| frame["frame_type"] == frame_type).count() as u64
}

#[test]
fn events_are_as_many_as_the_counters_say() {
    let files = Files::default();
    let rate = Rate::from_bits_per_second(100_000_000);
    let link = LinkConfig {
        rate,
        delay: Duration::from_millis(20),
        impairments: Impairments::loss(0.01),
        ..LinkConfig::default()
    };
    let mut config = PairConfig::symmetric(link, 500_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(RlpMode::Trust).nic_rate(rate).qlog(Some(files.qlog()));
    }
    let mut pair = Pair::new(config);
    let start = pair.now;
    let report = pair.flow(3_000_000, Duration::from_secs(60)).expect("it arrives");

    let (header, events) = files.records(true);
    assert_eq!((&header["qlog_version"], &header["qlog_format"]), (&"0.3".into(), &"JSON-SEQ".into()));
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");
    let sent = report.sender.sent;
    let packets: u64 = sent.levels.iter().map(|level| level.packets).sum();
    let bytes: u64 = sent.levels.iter().map(|level| level.bytes).sum();
    assert!(packets > 1000, "RLP hardly ran");
    assert_eq!(count(&events, "rlp:packet_sent"), packets);
    assert_eq!(sum(&events, "rlp:packet_sent", "length"), bytes);
    assert_eq!(count(&events, "rlp:sack_received"), sent.sacks);
    assert_eq!(count(&events, "transport:packet_sent"), report.sender.path.sent_packets);
    assert_eq!(count(&events, "recovery:packet_lost"), report.sender.path.lost_packets);
    let levels = sent.levels.iter().filter(|level| level.packets > 0).count() as u64;
    assert_eq!(count(&events, "rlp:level_changed"), levels - 1);
    // One clock, and it starts with the connection.
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "events out of order");
    assert!(times[0] < 1.0 && *times.last().unwrap() <= (pair.now - start).as_secs_f64() * 1e3 + 1.0);

    let (header, events) = files.records(false);
    assert_eq!(header["trace"]["vantage_point"]["type"], "server");
    let received = report.receiver.received;
    assert_eq!(count(&events, "rlp:packet_received"), received.rlp_datagrams);
    assert_eq!(sum(&events, "rlp:packet_received", "new"), received.rlp_bytes.iter().sum::<u64>());
    assert_eq!(count(&events, "rlp:sack_sent"), received.sacks);
    assert_eq!(count(&events, "rlp:packet_discarded"), received.rlp_discarded);
}
