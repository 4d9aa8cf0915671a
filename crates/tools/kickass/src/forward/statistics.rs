//! Statistics of a forwarder, as numbers, JSON and text.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use kickass::{Rate, stats::Tally};
use rc3_text::units::about_bytes;
use serde::Serialize;

use super::histogram::Histogram;

/// Statistics of a forwarder.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// By port, in the order of the configuration.
    pub ports: Vec<PortTotals>,
    /// Bytes of buffers of super-packets whose segments wait or are on their way.
    pub shared_bytes: u64,
}

/// Statistics of one port. All are counters, except `waiting`, `line` and the rates. Bytes are those of packets, IP headers
/// included.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PortTotals {
    /// The device.
    pub name: String,
    /// Packets received from the device.
    pub received: Tally,
    /// Packets written to the device.
    pub sent: Tally,
    /// Packets and super-packets read from the device.
    pub reads: u64,
    /// Packets and runs of packets written to the device.
    pub writes: u64,
    /// Packets dropped, by reason: received from the device and not forwarded, or lost on the way to it.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// Packets in the queue.
    pub waiting: Tally,
    /// Packets that the link has transmitted and that are not written to the device yet.
    pub line: Tally,
    /// The rate of the link.
    pub link_bits_per_second: f64,
    /// The signalled rate, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signalled_bits_per_second: Option<f64>,
    /// Whole packets fragmented to carry a signal, two fragments each.
    pub signalled: u64,
    /// Leading fragments shortened to a lower rate.
    pub lowered: u64,
    /// RTT indicators that passed.
    pub indicators: u64,
    /// Bytes of headers added by signals.
    pub overhead: u64,
    /// Packets that left without a new signal, by reason.
    pub withheld: BTreeMap<&'static str, u64>,
    /// ICMP messages to senders whose packets could not be forwarded.
    pub icmp: u64,
    /// Queueing delays.
    #[serde(rename = "queue_delay")]
    pub(crate) delays: Histogram,
    /// Delays at the best level, if the discipline has levels.
    #[serde(rename = "queue_delay_best", skip_serializing_if = "Histogram::is_empty")]
    pub(crate) best_delays: Histogram,
}

impl PortTotals {
    /// Total of dropped packets.
    pub fn drops(&self) -> u64 {
        self.dropped.values().sum()
    }
}

impl Totals {
    /// One JSON object on a line, with the time since the start.
    pub fn json(&self, event: &str, uptime: Duration) -> String {
        let value =
            serde_json::json!({ "event": event, "uptime_s": uptime.as_secs_f64(), "ports": self.ports });
        format!("{value}\n")
    }

    /// A line for each port with the changes since `earlier`, which was `interval` ago.
    pub fn text(&self, earlier: Option<&Self>, interval: Duration) -> String {
        let mut text = String::new();
        for (n, port) in self.ports.iter().enumerate() {
            let before = earlier.and_then(|earlier| earlier.ports.get(n));
            let since = |of: fn(&PortTotals) -> u64| of(port) - before.map_or(0, of);
            let pace = |packets: u64, bytes: u64| {
                let seconds = interval.as_secs_f64().max(1e-9);
                let rate = Rate::nearest(8.0 * bytes as f64 / seconds);
                let rate = rate.map_or_else(|| "0 bit/s".to_owned(), |rate| rate.to_string());
                format!("{:.0} packets/s {rate}", packets as f64 / seconds)
            };
            let inward = pace(since(|port| port.received.packets), since(|port| port.received.bytes));
            let outward = pace(since(|port| port.sent.packets), since(|port| port.sent.bytes));
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{}: in {inward}, out {outward}, dropped {}, waiting {}",
                port.name,
                since(PortTotals::drops),
                about_bytes(port.waiting.bytes),
            );
            if let Some(rate) = port.signalled_bits_per_second.and_then(Rate::nearest) {
                let signals = since(|port| port.signalled + port.lowered);
                let _ = write!(text, ", {signals} signals, now {rate}");
            }
            text.push('\n');
        }
        text
    }
}
