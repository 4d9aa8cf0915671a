//! Two long flows with different marks, one of which begins later: RC3 §5.2, Figs. 16 and 17.

use std::{path::Path as File, time::Duration};

use serde::Deserialize;

use super::{
    charts, clock,
    error::NetError,
    experiment::Options,
    interrupt, others,
    path::{Card, Discipline, Path},
    report::Section,
    run::Lab,
    site::Site,
};
use crate::document::Table;

/// Lower effort (RFC 8622).
const LOW: u8 = 1;

/// When the second flow begins, when it ends, and when the first one does.
const PHASES: [Duration; 3] = [Duration::from_secs(3), Duration::from_secs(6), Duration::from_secs(9)];
/// After a change rates are not taken into means for this long.
const SETTLING: Duration = Duration::from_secs(1);

/// Rates of both flows in bits per second, over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Goodput {
    /// Of the flow with high priority.
    pub high: Vec<f64>,
    /// Of the flow with low priority.
    pub low: Vec<f64>,
}

#[derive(Deserialize)]
struct Row {
    ns: u64,
    dscp: u8,
    bytes: u64,
}

impl Goodput {
    /// Over which time bytes are counted.
    pub const BIN: Duration = Duration::from_millis(100);

    /// Adds bytes that left so long after the start.
    fn add(&mut self, at: Duration, dscp: u8, bytes: u64) {
        let bins = (PHASES[2].as_nanos() / Self::BIN.as_nanos()) as usize;
        let bin = (at.as_nanos() / Self::BIN.as_nanos()) as usize;
        for rates in [&mut self.high, &mut self.low] {
            rates.resize(bins, 0.0);
        }
        let rates = if dscp == LOW { &mut self.low } else { &mut self.high };
        if let Some(rate) = rates.get_mut(bin) {
            *rate += bytes as f64 * 8.0 / Self::BIN.as_secs_f64();
        }
    }

    fn read(file: &File, from: u64) -> Result<Self, NetError> {
        let failed = |error: csv::Error| NetError::File { path: file.to_owned(), source: error.into() };
        let mut goodput = Self::default();
        for row in csv::Reader::from_path(file).map_err(failed)?.deserialize() {
            let Row { ns, dscp, bytes } = row.map_err(failed)?;
            if let Some(since) = ns.checked_sub(from) {
                goodput.add(Duration::from_nanos(since), dscp, bytes);
            }
        }
        Ok(goodput)
    }

    /// Mean rates of both in a phase, once it has settled.
    fn means(&self, phase: usize) -> [f64; 2] {
        let from = if phase == 0 { Duration::ZERO } else { PHASES[phase - 1] } + SETTLING;
        let bin = |at: Duration| (at.as_nanos() / Self::BIN.as_nanos()) as usize;
        let mean = |rates: &[f64]| {
            let part = rates.get(bin(from)..bin(PHASES[phase])).unwrap_or_default();
            part.iter().sum::<f64>() / part.len().max(1) as f64
        };
        [mean(&self.high), mean(&self.low)]
    }
}

/// Both orders of starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The flow with high priority begins later.
    Low,
    /// The flow with low priority begins later.
    High,
}

impl First {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Low, Self::High];

    /// What happens.
    pub fn about(self) -> &'static str {
        match self {
            Self::Low => "low from 0 to 9 s, high from 3 to 6 s",
            Self::High => "high from 0 to 9 s, low from 3 to 6 s",
        }
    }
}

/// The path with the queue at the sender's interface.
pub fn card(options: &Options) -> Path {
    Path { card: Card::AsLink, ..options.path_of(100, 20) }
}

/// The path with the queue at the router.
pub fn router(options: &Options) -> Path {
    Path { discipline: Discipline::Priority, ..options.path_of(100, 20) }
}

/// Measures both orders on a path.
///
/// # Errors
/// If a process fails.
pub fn measure(lab: &mut Lab, name: &str, path: &Path) -> Result<Vec<Section>, NetError> {
    let site = lab.site()?;
    let mut measured = Vec::new();
    for first in First::ALL {
        let file = format!("{name}-{}.csv", if first == First::Low { "low-first" } else { "high-first" });
        let file = std::path::absolute(lab.options.args.out.join(file))?;
        let what = format!("{name}, {}", first.about());
        measured.push((first, lab.step(&what, || run(&site, path, first, &file))?));
    }
    Ok(vec![section(name, path, &measured)])
}

fn section(name: &str, path: &Path, measured: &[(First, Goodput)]) -> Section {
    let place = if path.card == Card::AsLink { "sender's card" } else { "router" };
    let path = format!("{path}; queue with priorities at the {place}");
    let about = format!(
        "{path}. Kernel TCP with CUBIC; low priority is lower effort. Mean rates behind the bottleneck:"
    );
    let mut section = Section::new(name).text(about).table(table(measured));
    for (nth, (first, goodput)) in (1..).zip(measured) {
        let chart = charts::goodput(&format!("{name}: {}", first.about()), &path, goodput);
        section = section.picture(&format!("{name}-{nth}"), chart);
    }
    section
}

/// Lets both flows run over a path; `file` keeps the packets behind the bottleneck.
fn run(site: &Site, path: &Path, first: First, file: &File) -> Result<Goodput, NetError> {
    site.set_card(path)?;
    let wan = site.start_wan(path, 1, Some(file.to_owned()))?;
    let _sink = others::sink(site)?;
    let (of_first, of_second) = match first {
        First::Low => (LOW, 0),
        First::High => (0, LOW),
    };
    let from = clock::now();
    let long = others::marked(&site.sender, of_first)?;
    interrupt::sleep(PHASES[0])?;
    let short = others::marked(&site.sender, of_second)?;
    interrupt::sleep(PHASES[1] - PHASES[0])?;
    drop(short);
    interrupt::sleep(PHASES[2] - PHASES[1])?;
    drop(long);
    wan.finish()?;
    Goodput::read(file, from)
}

/// Mean rates in each phase.
fn table(measured: &[(First, Goodput)]) -> Table {
    let mut table = Table::new(&["flows", "phase", "#high priority, Mbit/s", "#low priority, Mbit/s"]);
    for (first, goodput) in measured {
        for (phase, name) in ["one flow", "both", "one flow again"].into_iter().enumerate() {
            let means = goodput.means(phase).map(|rate| format!("{:.1}", rate / 1e6));
            table.rows.push([[first.about().to_owned(), name.to_owned()], means].concat());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_rates_of_their_flow_and_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("timeline.csv");
        let second = 1_000_000_000_u64;
        let mut text = "ns,source,dscp,bytes\n".to_owned();
        // 12.5 kB in 10 ms are 10 Mbit/s.
        for bin in 0..900 {
            let dscp = if (300..600).contains(&bin) { 0 } else { 1 };
            text += &format!("{},10.93.0.1,{dscp},12500\n", 5 * second + bin * 10_000_000);
        }
        std::fs::write(&file, text).unwrap();
        let goodput = Goodput::read(&file, 5 * second).unwrap();
        assert_eq!(goodput.low.len(), 90);
        let rows = table(&[(First::Low, goodput)]).rows;
        assert_eq!(rows[0][2..], ["0.0", "10.0"]);
        assert_eq!(rows[1][2..], ["10.0", "0.0"]);
        assert_eq!(rows[2][2..], ["0.0", "10.0"]);
    }
}
