//! One turn of one scheme in one cell: all sizes, one after the other.

use std::time::{Duration, Instant};

use super::{
    cell::{Cell, Company},
    clock,
    error::NetError,
    interrupt,
    others::Others,
    sample::{MeasuredFlow, NOBODY, OthersSample},
    scheme::{HostPair, Scheme, Server},
    site::{Site, Wan},
    transport::{Setup, Task, Timed},
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

impl Session<'_> {
    /// Measures a scheme, or nobody, beside whom the cell asks for: flows of the scheme, and what others felt, if there were
    /// any.
    pub fn run(
        &self,
        scheme: Option<&Scheme>,
    ) -> Result<(Vec<MeasuredFlow>, Option<OthersSample>), NetError> {
        let Self { site, cell, .. } = *self;
        // A WAN for each turn: its queue, its losses and its trace begin anew, alike for all in this run.
        let mut wan = site.start_wan(&cell.path, self.run.into())?;
        let mut others = match cell.company {
            Company::Nobody => None,
            _ => Some(Others::start(site, cell, scheme, self.run.into())?),
        };
        interrupt::sleep(cell.warm_up())?;
        let server = scheme.map(|scheme| cell.serve(scheme, &site.place())).transpose()?;
        let begun = clock::now();
        let mut flows = Vec::new();
        let each = |&bytes| std::iter::repeat_n(bytes, cell.times as usize);
        for bytes in cell.sizes.iter().flat_map(each) {
            match &server {
                Some(server) => flows.extend(self.flow(&mut wan, server, bytes, others.as_mut())?),
                None => interrupt::sleep(cell.window(bytes))?,
            }
        }
        let felt = others.as_mut().map(|others| others.felt(&cell.path, begun, clock::now())).transpose()?;
        let felt = felt.map(|felt| OthersSample {
            experiment: self.experiment.to_owned(),
            cell: cell.name.clone(),
            scheme: scheme.map_or(NOBODY, |scheme| &scheme.name).to_owned(),
            run: self.run,
            ..felt
        });
        Ok((flows, felt))
    }

    /// Measures flows of a size until the WAN was in time, or it is too often late.
    fn flow(
        &self,
        wan: &mut Wan<'_>,
        server: &Server,
        bytes: u64,
        mut others: Option<&mut Others>,
    ) -> Result<Vec<MeasuredFlow>, NetError> {
        let (cell, path) = (self.cell, &self.cell.path);
        let mut attempts = 0;
        loop {
            attempts += 1;
            wan.report()?;
            let (began, from) = (Instant::now(), clock::now());
            let timed = cell.send(&self.site.place(), server, bytes)?;
            let report = wan.report()?;
            let window = cell.window(bytes);
            // What is left in queues should not meet the next flow.
            interrupt::sleep(window.saturating_sub(began.elapsed()).max(path.rtt * 2))?;
            let until = from + window.as_nanos() as u64;
            let rate = others.as_mut().and_then(|others| others.long().rate(from, until));
            let counts = report.late_p99 <= self.lateness && report.refused == 0;
            if !counts && attempts < ATTEMPTS {
                continue;
            }
            let sample = |(connection, timed)| MeasuredFlow {
                run: self.run,
                connection,
                ideal_s: path.ideal(bytes).as_secs_f64(),
                others_share: rate.map(|rate| rate / path.bytes_per_second()),
                late_p99_s: report.late_p99.as_secs_f64(),
                late_max_s: report.late_max.as_secs_f64(),
                dropped: report.dropped,
                lost: report.lost,
                primary_packets: report.waits.primary,
                primary_behind: report.waits.primary_behind,
                rlp_packets: report.waits.rlp,
                rlp_behind: report.waits.rlp_behind,
                attempts,
                counts,
                ..MeasuredFlow::new(self.experiment, &cell.name, server.scheme(), bytes, timed)
            };
            return Ok((1..).zip(&timed).map(sample).collect());
        }
    }
}

impl Cell {
    /// Starts a server for flows of this cell.
    pub fn serve(&self, scheme: &Scheme, place: &HostPair<'_>) -> Result<Server, NetError> {
        let nic_rate = self.card_known.then_some(self.path.rate.get());
        let setup = Setup { resume: self.connections > 1, nic_rate, ..scheme.setup };
        Scheme { setup, ..scheme.clone() }.serve(place)
    }

    /// Sends flows, each on a new connection of one new process.
    ///
    /// # Errors
    /// If one fails, or takes too long.
    pub fn send(&self, place: &HostPair<'_>, server: &Server, bytes: u64) -> Result<Vec<Timed>, NetError> {
        let process = server.client(place, Task::Time(bytes, self.connections))?;
        let flow = |_| Ok(serde_json::from_str(&process.line_in(self.patience(bytes))?)?);
        (0..self.connections).map(flow).collect()
    }
}
