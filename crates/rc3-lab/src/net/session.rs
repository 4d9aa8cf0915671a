//! One turn of one scheme in one cell: all sizes, one after the other.

use std::time::{Duration, Instant};

use rc3_text::units::rate_text;

use super::{
    cell::{Cell, Company},
    clock,
    error::NetError,
    interrupt,
    others::Others,
    sample::{FlowSample, NOBODY, OthersSample},
    scheme::{Place, Scheme, Server},
    site::{Site, Wan},
    transport::Timed,
    wan::report::WanReport,
};

/// A flow is measured so often at most until the WAN was in time.
const ATTEMPTS: u32 = 3;

/// Where a session takes place.
#[derive(Debug)]
pub struct Session<'a> {
    /// The network.
    pub site: &'a Site,
    /// Name of the experiment.
    pub experiment: &'a str,
    /// The cell.
    pub cell: &'a Cell,
    /// In which turn, from 1.
    pub run: u32,
    /// How late 99 % of the packets may leave the WAN.
    pub lateness: Duration,
}

/// What a session has measured.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Flows of the scheme.
    pub flows: Vec<FlowSample>,
    /// What others felt, if there were any.
    pub others: Option<OthersSample>,
}

impl Session<'_> {
    /// Measures a scheme, or nobody, beside whom the cell asks for.
    ///
    /// # Errors
    /// If a process fails.
    pub fn run(&self, wan: &mut Wan<'_>, scheme: Option<&Scheme>) -> Result<Outcome, NetError> {
        let mut others = match self.cell.company {
            Company::Nobody => None,
            _ => Some(Others::start(self.site, self.cell, u64::from(self.run))?),
        };
        interrupt::sleep(self.cell.warm_up())?;
        let server = scheme.map(|scheme| scheme.serve(&self.site.place(), &[])).transpose()?;
        let begun = clock::now();
        let mut outcome = Outcome::default();
        for &bytes in &self.cell.sizes {
            match (scheme, &server) {
                (Some(scheme), Some(server)) => {
                    outcome.flows.extend(self.flow(wan, scheme, server, bytes, others.as_mut())?);
                }
                _ => interrupt::sleep(self.cell.window(bytes))?,
            }
        }
        let name = scheme.map_or(NOBODY, |scheme| &scheme.name);
        outcome.others = others.as_mut().map(|others| OthersSample {
            experiment: self.experiment.to_owned(),
            cell: self.cell.name.clone(),
            scheme: name.to_owned(),
            run: self.run,
            ..others.felt(&self.cell.path, begun, clock::now())
        });
        Ok(outcome)
    }

    /// Measures flows of a size until the WAN was in time, or it is too often late.
    fn flow(
        &self,
        wan: &mut Wan<'_>,
        scheme: &Scheme,
        server: &Server,
        bytes: u64,
        mut others: Option<&mut Others>,
    ) -> Result<Vec<FlowSample>, NetError> {
        let path = &self.cell.path;
        for attempt in 1.. {
            wan.report()?;
            let (began, from) = (Instant::now(), clock::now());
            let timed = send(scheme, &self.site.place(), server, self.cell, bytes)?;
            let report = wan.report()?;
            let window = self.cell.window(bytes);
            // What is left in queues should not meet the next flow.
            let rest = window.saturating_sub(began.elapsed()).max(path.rtt * 2);
            interrupt::sleep(rest)?;
            let until = from + u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
            let rate = path.rate.bits_per_second() as f64 / 8.0;
            let share =
                others.as_mut().and_then(|others| others.long().rate(from, until)).map(|bytes| bytes / rate);
            let in_time = self.in_time(&report);
            if in_time || attempt == ATTEMPTS {
                let samples = (1..).zip(&timed).map(|(connection, timed)| FlowSample {
                    attempts: attempt,
                    counts: in_time,
                    others_share: share,
                    ..self.sample(scheme, bytes, connection, timed, &report)
                });
                return Ok(samples.collect());
            }
        }
        unreachable!("the last attempt returns")
    }

    fn in_time(&self, report: &WanReport) -> bool {
        Duration::from_micros(report.late_p99_us) <= self.lateness && report.refused == 0
    }

    fn sample(
        &self,
        scheme: &Scheme,
        bytes: u64,
        connection: u32,
        timed: &Timed,
        report: &WanReport,
    ) -> FlowSample {
        FlowSample {
            experiment: self.experiment.to_owned(),
            cell: self.cell.name.clone(),
            scheme: scheme.name.clone(),
            bytes,
            run: self.run,
            connection,
            connect_s: timed.connect,
            fct_s: timed.flow,
            ideal_s: self.cell.path.ideal(bytes).as_secs_f64(),
            sender_cpu_s: timed.sender_cpu,
            receiver_cpu_s: timed.receiver_cpu,
            others_share: None,
            late_p99_s: report.late_p99_us as f64 / 1e6,
            late_max_s: report.late_max_us as f64 / 1e6,
            dropped: report.dropped,
            lost: report.lost,
            attempts: 0,
            counts: false,
        }
    }
}

/// Sends flows of a cell, each on a new connection of one new process.
///
/// # Errors
/// If one fails, or takes too long.
pub fn send(
    scheme: &Scheme,
    place: &Place<'_>,
    server: &Server,
    cell: &Cell,
    bytes: u64,
) -> Result<Vec<Timed>, NetError> {
    let mut settings = Vec::new();
    if cell.connections > 1 {
        settings.push("--resume".to_owned());
    }
    if cell.card_known {
        settings.push(format!("--nic-rate={}", rate_text(cell.path.rate.bits_per_second())));
    }
    let words = [bytes.to_string(), cell.connections.to_string()];
    let process = scheme.client(place, server, "time", &words, &settings)?;
    let flow = |_| {
        let line = process.line_in(cell.patience(bytes))?;
        Ok(serde_json::from_str(&line)?)
    };
    (0..cell.connections).map(flow).collect()
}
