//! Everybody else on the path: a long flow or many short ones, and small datagrams that measure the round trip.

use std::net::SocketAddr;

use super::{
    act::load::Arrived,
    cell::{Cell, Company},
    error::NetError,
    namespace::Namespace,
    path::Path,
    process::Process,
    sample::OthersSample,
    scheme::{Place, Scheme, Server},
    site::{RECEIVER, Site},
    transport::Transport,
};
use crate::statistics::{Sample, geometric_mean};

const SINK: u16 = 14_434;
const ECHO: u16 = 14_435;
/// How often the round trip is measured.
const PING_EVERY: &str = "10ms";
/// What others use.
const CONGESTION: &str = "cubic";

/// Processes of everybody else. They end with the value.
#[derive(Debug)]
pub struct Others {
    sink: Server,
    _echo: Process,
    ping: Process,
    traffic: Option<Process>,
    long: Progress,
    flows: Vec<Arrived>,
}

/// What a long flow had received at which times: nanoseconds and bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress(Vec<(u64, u64)>);

impl Progress {
    fn push(&mut self, time: u64, bytes: u64) {
        self.0.push((time, bytes));
    }

    /// Bytes per second between two times. `None` if it was not observed then.
    pub fn rate(&self, from: u64, until: u64) -> Option<f64> {
        let bytes = self.at(until)? - self.at(from)?;
        (until > from).then(|| bytes / ((until - from) as f64 / 1e9))
    }

    /// Bytes at a time, between neighbours in proportion. A flow that has stalled since has what it had.
    fn at(&self, time: u64) -> Option<f64> {
        let after = self.0.partition_point(|(at, _)| *at < time);
        let (from, had) = *self.0.get(after.checked_sub(1)?)?;
        let Some(&(until, has)) = self.0.get(after) else { return Some(had as f64) };
        Some(had as f64 + (has - had) as f64 * (time - from) as f64 / (until - from) as f64)
    }
}

impl Others {
    /// Starts what a cell asks for; flows of others are the same for the same seed.
    ///
    /// # Errors
    /// If a process does not come up.
    pub fn start(site: &Site, cell: &Cell, seed: u64) -> Result<Self, NetError> {
        let sink = sink(site)?;
        let echo = start(&site.receiver, "echo", &["echo", &address(ECHO)])?;
        echo.line()?;
        let ping = start(&site.other, "ping", &["ping", &address(ECHO), "--every", PING_EVERY])?;
        let traffic = match cell.company {
            Company::Nobody => None,
            Company::Long => Some(start(&site.other, "long flow", &["long", CONGESTION, &address(SINK)])?),
            Company::Load(share) => {
                let rate = format!("{:.0}bit", cell.path.rate.bits_per_second() as f64 * share);
                let (address, seed) = (address(SINK), seed.to_string());
                let words = ["load", &address, &sink.certificate, "--schemes", "tcp", "--load", "poisson"];
                let words = [&words[..], &["--rate", &rate, "--seed", &seed]].concat();
                let load = start(&site.other, "load", &words)?;
                load.line()?;
                Some(load)
            }
        };
        Ok(Self { sink, _echo: echo, ping, traffic, long: Progress::default(), flows: Vec::new() })
    }

    /// The long flow up to now.
    pub fn long(&mut self) -> &Progress {
        for line in self.sink.process.lines_so_far() {
            if let Some((time, bytes)) = pair(&line) {
                self.long.push(time, bytes);
            }
        }
        &self.long
    }

    /// What they felt between two times of the monotonic clock.
    pub fn felt(&mut self, path: &Path, from: u64, until: u64) -> OthersSample {
        let rate = path.rate.bits_per_second() as f64 / 8.0;
        let arrived = self.traffic.iter().flat_map(Process::lines_so_far);
        self.flows.extend(arrived.filter_map(|line| serde_json::from_str::<Arrived>(&line).ok()));
        let long_share = self.long().rate(from, until).map(|bytes| bytes / rate);
        let slowdowns: Vec<f64> = self
            .flows
            .iter()
            .filter(|flow| (from..until).contains(&flow.timed.begun))
            .map(|flow| slowdown(path, flow.bytes, flow.timed.total()))
            .collect();
        let pings: Sample = self
            .ping
            .lines_so_far()
            .iter()
            .filter_map(|line| pair(line))
            .filter(|(sent, _)| (from..until).contains(sent))
            .map(|(_, took)| took as f64 / 1e9)
            .collect();
        OthersSample {
            experiment: String::new(),
            cell: String::new(),
            scheme: String::new(),
            run: 0,
            ping_median_s: quantile(&pings, 0.5),
            ping_p99_s: quantile(&pings, 0.99),
            pings: pings.len() as u64,
            long_share,
            flows: slowdowns.len() as u64,
            slowdown: geometric_mean(&slowdowns),
            slowdown_p99: quantile(&slowdowns.into_iter().collect(), 0.99),
        }
    }
}

fn quantile(sample: &Sample, share: f64) -> Option<f64> {
    (!sample.is_empty()).then(|| sample.quantile(share))
}

/// Completion time from connect over the ideal, which has a round trip for the handshake.
fn slowdown(path: &Path, bytes: u64, seconds: f64) -> f64 {
    seconds / (path.ideal(bytes) + path.rtt).as_secs_f64()
}

/// Two numbers in a line: a time, and bytes or how long a datagram took.
fn pair(line: &str) -> Option<(u64, u64)> {
    let (time, value) = line.split_once(' ')?;
    Some((time.parse().ok()?, value.parse().ok()?))
}

/// Where processes of the receiver listen.
fn address(port: u16) -> String {
    SocketAddr::new(RECEIVER.parse().expect("an address"), port).to_string()
}

/// Starts one of the hidden commands of `rc3-lab net act` on a host.
pub(super) fn start(host: &Namespace, what: &str, words: &[&str]) -> Result<Process, NetError> {
    let mut command = host.command(std::env::current_exe()?);
    command.args(["net", "act"]).args(words);
    Process::start(what, command)
}

/// Starts the receiver of TCP flows of others.
pub(super) fn sink(site: &Site) -> Result<Server, NetError> {
    let mut place = Place { sender: &site.other, ..site.place() };
    place.address.set_port(SINK);
    let tcp = Scheme::own(Transport::Tcp)?;
    tcp.serve(&place, &[])
}

/// Starts a long flow to the receiver with packets of this code point.
pub(super) fn marked(host: &Namespace, dscp: u8) -> Result<Process, NetError> {
    start(host, "long flow", &["long", CONGESTION, &address(SINK), "--dscp", &dscp.to_string()])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_is_that_between_two_times() {
        let mut progress = Progress::default();
        let millis = |millis: u64| millis * 1_000_000;
        for (at, bytes) in [(100, 0), (200, 1000), (300, 1000), (400, 5000)] {
            progress.push(millis(at), bytes);
        }
        assert_eq!(progress.rate(millis(100), millis(200)), None, "nothing is known before the first");
        assert_eq!(progress.rate(millis(150), millis(350)), Some(12_500.0));
        // It has not moved since.
        assert_eq!(progress.rate(millis(300), millis(500)), Some(20_000.0));
        assert_eq!(Progress::default().rate(0, 1), None);
    }

    #[test]
    fn a_slowdown_counts_from_connect() {
        let rate = rc3_core::units::Rate::from_bits_per_second(100_000_000).unwrap();
        let path = Path::new(rate, Duration::from_millis(40));
        assert!((slowdown(&path, 144_800, 0.144) - 2.0).abs() < 1e-9);
        assert_eq!(pair("17 40000000"), Some((17, 40_000_000)));
        assert_eq!(pair("ready"), None);
    }
}
