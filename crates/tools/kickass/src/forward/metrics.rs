//! Metrics for Prometheus.
//!
//! For each request, the thread of [`rc3_cli::metrics`] asks the forwarder for its totals, by writing a byte, and waits
//! for them. Numbers are therefore current, and cost nothing while nobody requests them.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpListener,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Mutex,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use rustix::fd::BorrowedFd;

use super::{
    histogram::{BOUNDS, Histogram},
    statistics::{PortTotals, Totals},
};

/// The forwarder answers within microseconds, unless it is gone.
const PATIENCE: Duration = Duration::from_secs(1);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The forwarder's side.
#[derive(Debug)]
pub(crate) struct Asked {
    questions: UnixStream,
    answers: Sender<Totals>,
}

impl Asked {
    /// Serves metrics at a socket that listens.
    pub(crate) fn serve(listener: TcpListener) -> io::Result<Self> {
        let (questions, asking) = UnixStream::pair()?;
        questions.set_nonblocking(true)?;
        let (answers, answered) = mpsc::channel();
        let mut registry = Registry::with_prefix("kickass");
        registry.register_collector(Box::new(Source { ask: Mutex::new((asking, answered)) }));
        rc3_cli::metrics::serve(listener, CONTENT_TYPE, move || {
            let mut text = String::new();
            encode(&mut text, &registry).is_ok().then_some(text)
        })?;
        Ok(Self { questions, answers })
    }

    /// Answers pending requests.
    pub(crate) fn answer(&mut self, totals: impl FnOnce() -> Totals) {
        let mut asked = [0; 64];
        if self.questions.read(&mut asked).is_ok_and(|bytes| bytes > 0) {
            // A thread that has ended makes no more requests.
            let _ = self.answers.send(totals());
        }
    }
}

impl AsFd for Asked {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.questions.as_fd()
    }
}

/// The thread's side.
#[derive(Debug)]
struct Source {
    ask: Mutex<(UnixStream, Receiver<Totals>)>,
}

impl Source {
    fn totals(&self) -> Option<Totals> {
        let mut ask = self.ask.lock().ok()?;
        let (questions, answers) = &mut *ask;
        // The reply to an earlier request that timed out.
        while answers.try_recv().is_ok() {}
        questions.write_all(&[0]).ok()?;
        answers.recv_timeout(PATIENCE).ok()
    }
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.totals().ok_or(fmt::Error)?;
        write_metrics(&totals, &mut encoder)
    }
}

/// A label in addition to the port, or none.
type Labelled = Vec<(Option<(&'static str, &'static str)>, u64)>;

/// A counter: its name, help text, unit, and its values from the totals of a port.
type CounterOf = (&'static str, &'static str, Option<Unit>, fn(&PortTotals) -> Labelled);

const COUNTERS: [CounterOf; 14] = [
    ("received_packets", "Packets received from the device", None, |port| one(port.received.packets)),
    ("received", "Bytes received from the device", Some(Unit::Bytes), |port| one(port.received.bytes)),
    ("sent_packets", "Packets written to the device", None, |port| one(port.sent.packets)),
    ("sent", "Bytes written to the device", Some(Unit::Bytes), |port| one(port.sent.bytes)),
    ("device_reads", "Packets and super-packets read from the device", None, |port| one(port.reads)),
    ("device_writes", "Packets and runs of packets written to the device", None, |port| one(port.writes)),
    ("dropped_packets", "Packets dropped, by reason", None, |port| {
        port.dropped.iter().map(|(reason, count)| (Some(("reason", *reason)), *count)).collect()
    }),
    ("marked_packets", "Packets marked instead of dropped", None, |port| one(port.marked)),
    ("signalled_packets", "Packets fragmented to carry a rate, two fragments each", None, |port| {
        one(port.signalled)
    }),
    ("lowered_fragments", "Leading fragments shortened to a lower rate", None, |port| one(port.lowered)),
    ("rtt_indicators", "RTT indicators that passed", None, |port| one(port.indicators)),
    ("signal_overhead", "Bytes of headers added by signals", Some(Unit::Bytes), |port| one(port.overhead)),
    ("withheld_signals", "Packets that left without a new signal, by reason", None, |port| {
        port.withheld.iter().map(|(reason, count)| (Some(("reason", *reason)), *count)).collect()
    }),
    ("icmp_messages", "ICMP messages about packets received from the device", None, |port| one(port.icmp)),
];

/// A gauge, likewise; it may be absent.
type GaugeOf = (&'static str, &'static str, Option<Unit>, fn(&PortTotals) -> Option<f64>);

const GAUGES: [GaugeOf; 6] = [
    ("queue", "Bytes queued", Some(Unit::Bytes), |port| Some(port.waiting.bytes as f64)),
    ("queue_packets", "Packets queued", None, |port| Some(port.waiting.packets as f64)),
    ("line", "Bytes transmitted by the link and not written yet", Some(Unit::Bytes), |port| {
        Some(port.line.bytes as f64)
    }),
    ("line_packets", "Packets transmitted by the link and not written yet", None, |port| {
        Some(port.line.packets as f64)
    }),
    ("link_bits_per_second", "Rate of the link", None, |port| Some(port.link_bits_per_second)),
    ("signalled_bits_per_second", "Signalled rate", None, |port| port.signalled_bits_per_second),
];

fn one(value: u64) -> Labelled {
    vec![(None, value)]
}

fn write_metrics(totals: &Totals, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, unit, values) in &COUNTERS {
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for port in &totals.ports {
            for (label, value) in values(port) {
                let labels: Vec<_> = [("port", port.name.as_str())].into_iter().chain(label).collect();
                ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
    }
    for (name, help, unit, value) in &GAUGES {
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for port in &totals.ports {
            if let Some(value) = value(port) {
                let labels = [("port", port.name.as_str())];
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
    }
    let (name, help) = ("super_packets", "Memory of super-packets whose segments wait or are on their way");
    let shared = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
    ConstGauge::new(totals.shared_bytes).encode(shared)?;
    let (name, help) = ("queue_delay", "Time in the queue");
    let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for port in &totals.ports {
        let labels = [("port", port.name.as_str())];
        encode_histogram(&port.delays, metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_histogram(histogram: &Histogram, mut metric: MetricEncoder<'_>) -> fmt::Result {
    let ends = BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = ends.zip(histogram.coarse()).collect();
    metric.encode_histogram::<NoLabelSet>(histogram.sum, histogram.count(), &buckets, None)
}
