//! Two long flows with different marks, one of which begins later: RC3 §5.2, Figs. 16 and 17.

use std::time::Duration;

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};
use serde::Serialize;

use super::{
    clock,
    error::NetError,
    interrupt,
    others::{self, ArrivalCurve},
    path::{Card, Discipline, Path},
    results,
    run::Lab,
    site::{Site, Wan},
};
use crate::document::{Document, Table};

/// Lower effort (RFC 8622).
const LOW: u8 = 1;

/// When the second flow begins, when it ends, and when the first one does.
const PHASES: [Duration; 3] = [Duration::from_secs(3), Duration::from_secs(6), Duration::from_secs(9)];
/// After a change rates are not taken into means for this long.
const SETTLING: Duration = Duration::from_secs(1);
/// How often the WAN reports which bytes have left.
const BIN: Duration = Duration::from_millis(100);

/// Both orders of starting: marks of the first and the second flow.
const ORDERS: [([u8; 2], &str); 2] = [
    ([LOW, 0], "low from 0 to 9 s, high from 3 to 6 s"),
    ([0, LOW], "high from 0 to 9 s, low from 3 to 6 s"),
];

/// What has left the bottleneck over time.
#[derive(Debug, Clone, Default)]
struct Goodput {
    /// Nanoseconds at the start.
    from: u64,
    /// Of the flow with high priority, and of the one with low priority.
    flows: [ArrivalCurve; 2],
}

impl Goodput {
    /// Mean bits per second of both between two times since the start.
    fn rates(&self, from: Duration, until: Duration) -> [f64; 2] {
        let [from, until] = [from, until].map(|at| self.from + at.as_nanos() as u64);
        [0, 1].map(|flow| 8.0 * self.flows[flow].rate(from, until).unwrap_or_default())
    }

    /// In each phase, once it has settled.
    fn means(&self) -> [[f64; 2]; 3] {
        let begins = [Duration::ZERO, PHASES[0], PHASES[1]];
        [0, 1, 2].map(|phase| self.rates(begins[phase] + SETTLING, PHASES[phase]))
    }

    /// Seconds and rates in each bin.
    fn bins(&self) -> impl Iterator<Item = (f64, [f64; 2])> {
        let bins = (PHASES[2].as_nanos() / BIN.as_nanos()) as u32;
        (0..bins).map(|bin| ((BIN * bin).as_secs_f64(), self.rates(BIN * bin, BIN * (bin + 1))))
    }

    /// Watches until so long after the start.
    fn watch(&mut self, wan: &mut Wan<'_>, until: Duration) -> Result<(), NetError> {
        while clock::now() < self.from + until.as_nanos() as u64 {
            interrupt::sleep(BIN)?;
            let report = wan.report()?;
            for (flow, mark) in self.flows.iter_mut().zip([0, LOW]) {
                flow.push(report.at, report.bytes.get(&mark).copied().unwrap_or_default());
            }
        }
        Ok(())
    }
}

/// Bits per second of both flows in a bin that begins at this time.
#[derive(Debug, Serialize)]
struct RateBin {
    order: &'static str,
    second: f64,
    high: f64,
    low: f64,
}

/// Measures both orders, with the queue at the sender's card or at the router.
pub fn measure(
    lab: &mut Lab,
    name: &str,
    card: Card,
    discipline: Discipline,
) -> Result<Vec<Document>, NetError> {
    let path = Path { card, discipline, ..lab.options.path_of(100, 20) };
    let site = lab.site(&path)?;
    let place = if card == Card::AsLink { "sender's card" } else { "router" };
    let about = format!("{path}; queue with priorities at the {place}");
    let mut table = Table::new(["flows", "phase", "#high priority, Mbit/s", "#low priority, Mbit/s"]);
    let (mut rows, mut pictures) = (Vec::new(), Vec::new());
    for (nth, (marks, order)) in (1..).zip(ORDERS) {
        let what = format!("{name}: {order}");
        let Some(goodput) = lab.attempt(&what, || run(&site, &path, marks)) else { continue };
        for (phase, rates) in ["one flow", "both", "one flow again"].into_iter().zip(goodput.means()) {
            let rates = rates.map(|rate| format!("{:.1}", rate / 1e6));
            table.row(order, [phase.to_owned()].into_iter().chain(rates));
        }
        let row = |(second, [high, low]): (f64, [f64; 2])| RateBin { order, second, high, low };
        rows.extend(goodput.bins().map(row));
        let lines = ["high priority", "low priority"].into_iter().enumerate().map(|(nth, flow)| {
            let points = goodput.bins().map(|(second, rates)| Point::new(second, rates[nth]));
            Series::new(flow, Colour::nth(nth), Shape::Line, points)
        });
        let chart = Chart::new(
            what,
            about.clone(),
            Axis::new("time", Scale::Linear, Unit::Seconds).starting(0.0),
            Axis::new("rate behind the bottleneck", Scale::Linear, Unit::BitsPerSecond).starting(0.0),
            lines,
        );
        pictures.push((format!("{name}-{nth}"), chart));
    }
    if pictures.is_empty() {
        return Ok(Vec::new());
    }
    results::write(&lab.options.args.out.join(format!("{name}.csv")), &rows)?;
    let text = "Kernel TCP with CUBIC; low priority is lower effort. Mean rates behind the bottleneck:";
    let section = Document::new(name).text(format!("{about}. {text}")).table(table);
    let picture = |section: Document, (name, chart)| section.picture(name, chart);
    Ok(vec![pictures.into_iter().fold(section, picture)])
}

/// Lets both flows run over a path.
fn run(site: &Site, path: &Path, [first, second]: [u8; 2]) -> Result<Goodput, NetError> {
    let mut wan = site.start_wan(path, 1)?;
    let _sink = others::sink(site)?;
    let mut goodput = Goodput { from: clock::now(), ..Goodput::default() };
    goodput.flows.iter_mut().for_each(|flow| flow.push(goodput.from - 1, 0));
    let _long = others::long(&site.sender, first)?;
    goodput.watch(&mut wan, PHASES[0])?;
    let short = others::long(&site.sender, second)?;
    goodput.watch(&mut wan, PHASES[1])?;
    drop(short);
    goodput.watch(&mut wan, PHASES[2])?;
    Ok(goodput)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_rates_of_their_flow_and_their_time() {
        let second = 1_000_000_000_u64;
        let mut goodput = Goodput { from: 5 * second, ..Goodput::default() };
        let mut bytes = [0, 0];
        goodput.flows.iter_mut().for_each(|flow| flow.push(5 * second - 1, 0));
        for bin in 0..=90 {
            for (flow, bytes) in goodput.flows.iter_mut().zip(bytes) {
                flow.push(5 * second + bin * 100_000_000, bytes);
            }
            // 125 kB in 100 ms are 10 Mbit/s.
            bytes[if (30..60).contains(&bin) { 0 } else { 1 }] += 125_000;
        }
        assert_eq!(goodput.bins().count(), 90);
        assert_eq!(goodput.means(), [[0.0, 10e6], [10e6, 0.0], [0.0, 10e6]]);
    }
}
