//! The qlog file: every record is valid, and the records agree with the counters.
#![cfg(feature = "qlog")]

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use rc3_core::{Qlog, RlpMode, Side, units::Rate};
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
