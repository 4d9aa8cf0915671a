//! Everybody else on the path: a long flow or many short ones, and small datagrams that measure the round trip.

use std::time::Duration;

use super::{
    act::{
        Job,
        load::{Arrived, Load, Traffic},
    },
    cell::{Cell, Company},
    error::NetError,
    namespace::Namespace,
    path::Path,
    process::Process,
    sample::OthersSample,
    scheme::{HostPair, Scheme, Server},
    site::Site,
    transport::Transport,
};
use crate::statistics::{Sample, geometric_mean};

const SINK: u16 = 14_434;
/// The receiver of short flows.
const LOAD_SINK: u16 = 14_436;
const ECHO: u16 = 14_435;
/// How often the round trip is measured.
const PING_EVERY: Duration = Duration::from_millis(10);

/// Processes of everybody else. They end with the value.
#[derive(Debug)]
pub struct Others {
    long_sink: Server,
    _load_sink: Server,
    _echo: Process,
    ping: Process,
    traffic: Vec<Process>,
    long: ArrivalCurve,
    flows: Vec<Arrived>,
}

/// What had arrived at which times: nanoseconds and bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArrivalCurve(Vec<(u64, u64)>);

impl ArrivalCurve {
    /// At a later time.
    pub fn push(&mut self, time: u64, bytes: u64) {
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
    pub fn start(site: &Site, cell: &Cell, scheme: Option<&Scheme>, seed: u64) -> Result<Self, NetError> {
        let tcp = Scheme::own(Transport::Tcp)?;
        let carrier = scheme.filter(|_| matches!(cell.company, Company::Own(_))).unwrap_or(&tcp);
        let (long_sink, load_sink) = (sink(site)?, serve(site, carrier, LOAD_SINK)?);
        let echo = Process::job("echo", &site.receiver, &Job::Echo(Site::address(ECHO)))?;
        echo.line()?;
        let ping = Process::job("ping", &site.other, &Job::Ping(Site::address(ECHO), PING_EVERY))?;
        let mut traffic = Vec::new();
        if cell.company.has_long() {
            traffic.push(long(&site.other, 0)?);
        }
        if let Some(share) = cell.company.load() {
            let rate = cell.path.rate.get() as f64 * share;
            let flows = Traffic { seed, ..Traffic::of(Load::Poisson(rate), 1) };
            let job = Job::Load(load_sink.target.clone(), vec![carrier.setup.transport], flows);
            let load = Process::job("load", &site.other, &job)?;
            load.line()?;
            traffic.push(load);
        }
        Ok(Self {
            long_sink,
            _load_sink: load_sink,
            _echo: echo,
            ping,
            traffic,
            long: ArrivalCurve::default(),
            flows: Vec::new(),
        })
    }

    /// The long flow up to now.
    pub fn long(&mut self) -> &ArrivalCurve {
        for line in self.long_sink.process.lines_so_far() {
            if let Some((time, bytes)) = pair(&line) {
                self.long.push(time, bytes);
            }
        }
        &self.long
    }

    /// What they felt between two times of the monotonic clock.
    ///
    /// # Errors
    /// If one has ended, so that a flow was not beside it.
    pub fn felt(&mut self, path: &Path, from: u64, until: u64) -> Result<OthersSample, NetError> {
        self.traffic.iter_mut().chain([&mut self.ping]).try_for_each(Process::require_running)?;
        let arrived = self.traffic.iter().flat_map(Process::lines_so_far);
        self.flows.extend(arrived.filter_map(|line| serde_json::from_str::<Arrived>(&line).ok()));
        let long_share = self.long().rate(from, until).map(|bytes| bytes / path.bytes_per_second());
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
        Ok(OthersSample {
            ping_median_s: pings.percentile(0.5),
            ping_p99_s: pings.percentile(0.99),
            pings: pings.len() as u64,
            long_share,
            flows: slowdowns.len() as u64,
            slowdown: geometric_mean(&slowdowns),
            slowdown_p99: slowdowns.into_iter().collect::<Sample>().percentile(0.99),
            ..OthersSample::default()
        })
    }
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

/// Starts the receiver of a long TCP flow of others.
pub(super) fn sink(site: &Site) -> Result<Server, NetError> {
    serve(site, &Scheme::own(Transport::Tcp)?, SINK)
}

fn serve(site: &Site, scheme: &Scheme, port: u16) -> Result<Server, NetError> {
    scheme.serve(&HostPair { sender: &site.other, address: Site::address(port), ..site.place() })
}

/// Starts a long flow to that receiver with packets of this code point.
pub(super) fn long(host: &Namespace, dscp: u8) -> Result<Process, NetError> {
    Process::job("long flow", host, &Job::Long(Site::address(SINK), dscp))
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread};

    use super::*;

    #[test]
    fn a_rate_is_that_between_two_times() {
        let mut progress = ArrivalCurve::default();
        let millis = |millis: u64| millis * 1_000_000;
        for (at, bytes) in [(100, 0), (200, 1000), (300, 1000), (400, 5000)] {
            progress.push(millis(at), bytes);
        }
        assert_eq!(progress.rate(millis(100), millis(200)), None, "nothing is known before the first");
        assert_eq!(progress.rate(millis(150), millis(350)), Some(12_500.0));
        // It has not moved since.
        assert_eq!(progress.rate(millis(300), millis(500)), Some(20_000.0));
        assert_eq!(ArrivalCurve::default().rate(0, 1), None);
    }

    #[test]
    fn others_that_have_ended_are_an_error() {
        let shell = |script| Process::start("load", Command::new("sh").args(["-c", script])).unwrap();
        let server = || Server::of(shell("read line")).unwrap();
        let mut others = Others {
            long_sink: server(),
            _load_sink: server(),
            _echo: shell("read line"),
            ping: shell("read line"),
            traffic: vec![shell("read line")],
            long: ArrivalCurve::default(),
            flows: Vec::new(),
        };
        let path = Path::of(100, 40);
        assert_eq!(others.felt(&path, 0, 1).unwrap(), OthersSample::default());
        let mut ended = shell("echo ready; exit 1");
        assert_eq!(ended.line().unwrap(), "ready");
        while ended.ended().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        others.traffic.push(ended);
        assert_eq!(others.felt(&path, 0, 1).unwrap_err().to_string(), "load: ended");
    }

    #[test]
    fn a_slowdown_counts_from_connect() {
        assert!((slowdown(&Path::of(100, 40), 144_800, 0.144) - 2.0).abs() < 1e-9);
        assert_eq!(pair("17 40000000"), Some((17, 40_000_000)));
        assert_eq!(pair("ready"), None);
    }
}
