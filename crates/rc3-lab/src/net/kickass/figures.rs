//! Pictures and tables of the figures, and what the paper says of them.

use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};

use super::{
    ACCESS, CUBIC, FQ_CODEL, KICKASS, KICKASS_FCT, KICKASS_RLP, PCC, RunSetting,
    results::{ForwarderRun, compared},
};
use crate::{
    document::{Document, Table},
    net::transport::{Modes, Transport},
    statistics::{Sample, Z_95},
};

/// Sizes in packets of which flows are drawn together; the law has none below 44.
const BINS: [(f64, f64); 5] = [(1.0, 60.0), (60.0, 100.0), (100.0, 200.0), (200.0, 500.0), (500.0, 2001.0)];
const EVERY_SIZE: (f64, f64) = (0.0, f64::INFINITY);
/// What is the same within so much is unharmed.
const HARM: f64 = 0.03;
/// A figure agrees with the printed one within this share of it (docs/REPRODUCTION.md).
const TOLERANCE: f64 = 0.1;
const LIGHT: &str = "100 Mbit/s, 100 ms, 8 senders, real sockets";
const HEAVY: &str = "10 Mbit/s, 100 ms, 8 senders, real sockets";

const VARIANTS: &str = "Ports without signals have drop-tail queues unless the run says otherwise. Those of Kick-Ass have RCP \
                        with the gains of its authors' model (alpha and beta 0.4), and as other RCP with those of their \
                        scripts for completion times (0.1 and 1). With RLP ports have strict priorities. One run of each.";
const TESTBED: &str = "Eight senders in one network namespace, their receiver in another, `kickass forward` between them: a \
                       buffer of 1000 packets, a round trip of 100 ms. Sizes are Pareto, silences between flows exponential; \
                       all runs have the same. Each flow has a connection of its own, and its time is from connect to the last \
                       byte at the receiver. TCP is the kernel's and has no TLS; rc3 has, and its handshake takes one round \
                       trip, too.";
const PATH: &str = "Two senders, a kickass forward with signals and the rate of the access, a second one of 100 Mbit/s without \
                    signals, the receiver; 50 ms. Between them 32 senders of kernel TCP (CUBIC) enter, with the light load, about \
                    half of the second link. Flows have 5 MB at 10 Mbit/s and 20 MB at 100 Mbit/s. The paper's path is the \
                    Internet with unknown cross traffic; it prints no numbers. A flow counts from connect, so that the handshake \
                    and the round trip before its first rate count as TCP mode.";

/// What a picture and a table have of each run.
struct Quantity {
    /// What is counted, and in which unit the table has it.
    name: &'static str,
    of: fn(&ForwarderRun) -> Option<Sample>,
    /// Its axis. What is below its start is drawn there: a logarithm has no zero.
    axis: fn(Axis) -> Axis,
    unit: Unit,
    is_log: bool,
    /// Values of the table in those of the picture, and its decimals.
    factor: f64,
    decimals: usize,
}

const FCT: Quantity = Quantity {
    name: "flows by FCT, s",
    of: |run| Some(run.fcts(EVERY_SIZE)),
    axis: |axis| axis,
    unit: Unit::Seconds,
    is_log: true,
    factor: 1.0,
    decimals: 3,
};
const BACKLOG: Quantity = Quantity {
    name: "time by queueing delay, ms",
    of: |run| run.port.backlog.clone(),
    axis: |axis| axis.starting(0.0001),
    factor: 1e3,
    decimals: 2,
    ..FCT
};
const DELAY: Quantity =
    Quantity { name: "packets by queueing delay, ms", of: |run| Some(run.port.delays.clone()), ..BACKLOG };
const THROUGHPUT: Quantity = Quantity {
    name: "flows by throughput, Mbit/s",
    of: |run| Some(run.flows.iter().map(|flow| 8.0 * flow.bytes as f64 / flow.timed.total()).collect()),
    axis: |axis| axis.starting(0.0),
    unit: Unit::BitsPerSecond,
    is_log: false,
    factor: 1e-6,
    decimals: 2,
};
const STEERED: Quantity = Quantity {
    name: "flows by share of time in Kick-Ass mode, %",
    of: |run| Some(modes_of(run).map(|modes| modes.steered / modes.seconds).collect()),
    axis: |axis| axis.starting(0.0).ending(1.0),
    unit: Unit::Share,
    is_log: false,
    factor: 100.0,
    decimals: 1,
};

impl Quantity {
    /// A line for each run: the share of what is not above a value.
    fn chart(&self, title: &str, subtitle: &str, runs: &[ForwarderRun]) -> Chart {
        let (counted, name) = self.name.split_once(" by ").unwrap_or_default();
        let name = name.split(", ").next().unwrap_or_default();
        let scale = if self.is_log { Scale::Log } else { Scale::Linear };
        let x = (self.axis)(Axis::new(name, scale, self.unit));
        let y = Axis::new(counted, Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
        let lines = runs.iter().filter_map(|run| {
            let values: Vec<(f64, f64)> = (self.of)(run)?.distribution().collect();
            let steps = values.chunk_by(|(one, _), (other, _)| one == other);
            let points = steps.filter_map(|equal| {
                let (value, share) = equal.last()?;
                Some(Point::new(value.max(x.from.unwrap_or(*value)), *share))
            });
            Some(run.series(Shape::Line, points))
        });
        let lines: Vec<_> = lines.collect();
        Chart::new(title, subtitle, x, y, lines)
    }

    fn table(&self, runs: &[ForwarderRun]) -> Table {
        let head = ["#count", "#mean, standard error", "#10 %", "#median", "#90 %", "#99 %", "#most"];
        table(&head, runs, |run| {
            let sample = (self.of)(run)?;
            let number = |value: f64| format!("{:.*}", self.decimals, value * self.factor);
            let mean = format!("{} ± {}", number(sample.mean()), number(sample.standard_error()));
            let shares = [0.1, 0.5, 0.9, 0.99, 1.0].map(|share| number(sample.quantile(share)));
            Some([vec![sample.len().to_string(), mean], shares.into()].concat())
        })
    }

    /// The table with its heading.
    fn add_to(&self, document: Document, runs: &[ForwarderRun]) -> Document {
        document.text(format!("Distribution of {}:", self.name)).table(self.table(runs))
    }
}

/// A sentence of the paper beside what was measured: what, printed, measured, whether it holds.
type Claim = (String, &'static str, String, bool);

fn claims(claims: impl IntoIterator<Item = Option<Claim>>) -> Table {
    let mut table = Table::new(["claim", "printed", "measured", "holds"]);
    for (what, printed, measured, holds) in claims.into_iter().flatten() {
        table.row(what, [printed.to_owned(), measured, if holds { "yes" } else { "no" }.to_owned()]);
    }
    table
}

/// The value of a run over that of another, as a claim that holds above or below a bound.
fn ratio(
    what: impl Into<String>,
    printed: &'static str,
    ratio: Option<f64>,
    holds: fn(f64) -> bool,
) -> Option<Claim> {
    ratio.map(|ratio| (what.into(), printed, format!("{ratio:.2}"), holds(ratio)))
}

fn find<'a>(runs: &'a [ForwarderRun], title: &str) -> Option<&'a ForwarderRun> {
    runs.iter().find(|run| run.title == title)
}

/// A row for each run, in order: its title, and these cells.
fn table(
    head: &[&str],
    runs: &[ForwarderRun],
    cells: impl Fn(&ForwarderRun) -> Option<Vec<String>>,
) -> Table {
    let mut table = Table::new(std::iter::once("run").chain(head.iter().copied()));
    for run in runs {
        if let Some(cells) = cells(run) {
            table.row(run.title, cells);
        }
    }
    table
}

/// Fig. 8: completion times under light load.
pub(super) fn completion(runs: &[ForwarderRun]) -> Document {
    let mean = |setting: &RunSetting| find(runs, setting.title).map(|run| run.fcts(EVERY_SIZE).mean());
    let over_cubic = |setting: &RunSetting| Some(mean(setting)? / mean(&CUBIC)?);
    let kickass = [KICKASS, KICKASS_FCT, KICKASS_RLP].map(|setting| {
        let what = format!("mean FCT of CUBIC over that of {}", setting.title);
        ratio(what, "2 on average", over_cubic(&setting).map(f64::recip), |over| over >= 2.0)
    });
    let pcc = ratio("mean FCT of PCC over that of CUBIC", "longer", over_cubic(&PCC), |over| over > 1.0);
    let what = "mean FCT with FQ-CoDel and ECN over that without";
    let fq_codel = ratio(what, "no improvement", over_cubic(&FQ_CODEL), |over| over >= 0.9);
    let document = Document::new("Kick-Ass Fig. 8: completion times under light load")
        .text(format!("NU-EECS-16-09 §4.1, Fig. 8. {TESTBED} 100 Mbit/s; 100 packets of 1460 bytes and 0.5 s on average."))
        .text(VARIANTS)
        .picture("sockets-fig8", by_size(runs))
        .picture("sockets-fig8-2", FCT.chart("Distribution of the FCT under light load", LIGHT, runs))
        .table(claims(kickass.into_iter().chain([pcc, fq_codel])));
    counts(FCT.add_to(document, runs), runs)
}

fn by_size(runs: &[ForwarderRun]) -> Chart {
    let names = BINS.map(|(from, to)| format!("{from} to {}", to - 1.0)).to_vec();
    let bars = |run: &ForwarderRun| {
        let bins = BINS.iter().enumerate().map(|(x, bin)| (x as f64, run.fcts(*bin)));
        let bins = bins.filter(|(_, fcts)| fcts.len() > 1);
        let bar = |(x, fcts): (f64, Sample)| Point { x, y: fcts.mean(), error: Some(fcts.standard_error()) };
        run.series(Shape::Bars, bins.map(bar))
    };
    let x = Axis::new("packets", Scale::Names(names), Unit::Number);
    let y = Axis::new("FCT", Scale::Linear, Unit::Seconds).starting(0.0);
    Chart::new("Mean FCT under light load", LIGHT, x, y, runs.iter().map(bars))
}

/// Fig. 9: how long packets wait at the bottleneck under heavy load.
pub(super) fn waiting(runs: &[ForwarderRun]) -> Document {
    let subtitle = format!("{HEAVY}; no delay at all is drawn as 0.1 ms");
    let median = |setting: &RunSetting| {
        let median = 1e3 * find(runs, setting.title)?.port.backlog.as_ref()?.quantile(0.5);
        let what = format!("median queueing delay of {} over time", setting.title);
        Some((what, "0 ms", format!("{median:.2} ms"), median < 0.5))
    };
    let longest = |setting: &RunSetting| {
        let longest = find(runs, setting.title)?.port.delays.quantile(1.0);
        let what = format!("longest queueing delay of {}", setting.title);
        Some((what, "above 1 s", format!("{longest:.2} s"), longest > 1.0))
    };
    let document = Document::new("Kick-Ass Fig. 9: queueing delay under heavy load")
        .text(format!("NU-EECS-16-09 §4.1, Fig. 9. {TESTBED} 10 Mbit/s; 1 MB and 8 s on average."))
        .text(VARIANTS)
        .text(
            "Of the queue, looked at 20 times per second, what is drawn is how long it would take to send it, and of packets, \
             how long each has waited, to 5 % of it. With RLP these are the packets of the primary level, and the whole queue \
             says nothing about their delay.",
        )
        .picture(
            "sockets-fig9",
            BACKLOG.chart("Instantaneous queueing delay under heavy load", &subtitle, runs),
        )
        .picture("sockets-fig9-2", DELAY.chart("Queueing delay of packets under heavy load", &subtitle, runs))
        .table(claims([median(&KICKASS), median(&KICKASS_FCT), longest(&CUBIC), longest(&PCC)]));
    DELAY.add_to(BACKLOG.add_to(document, runs), runs)
}

/// Fig. 10: the throughput of each flow under heavy load.
pub(super) fn throughput(runs: &[ForwarderRun]) -> Document {
    let median = |setting: &RunSetting| Some((THROUGHPUT.of)(find(runs, setting.title)?)?.quantile(0.5));
    let claim = |setting: &RunSetting| {
        let what = format!("median throughput of Kick-Ass over that of {}", setting.title);
        let over = median(&KICKASS).zip(median(setting)).map(|(kickass, other)| kickass / other);
        ratio(what, "higher", over, |over| over > 1.0)
    };
    let document = Document::new("Kick-Ass Fig. 10: throughput of flows under heavy load")
        .text("NU-EECS-16-09 §4.1, Fig. 10. Bytes by the time from connect to the last byte, of the flows that all runs have.")
        .picture("sockets-fig10", THROUGHPUT.chart("Throughput of flows under heavy load", HEAVY, runs))
        .table(claims([CUBIC, FQ_CODEL, PCC].iter().map(claim)));
    counts(FCT.add_to(THROUGHPUT.add_to(document, runs), runs), runs)
}

/// Kernel TCP beside Kick-Ass at a port with signals, under light load.
pub(super) fn shared(alone: &ForwarderRun, shared: &ForwarderRun) -> Document {
    let only = |title: &'static str, is_tcp: bool| {
        let mut run = ForwarderRun { title, ..shared.clone() };
        run.flows.retain(|flow| (flow.scheme == Transport::Tcp.name()) == is_tcp);
        run
    };
    let alone = ForwarderRun { title: "TCP, others TCP", ..alone.clone() };
    let mut runs = compared(&[alone, only("TCP, others Kick-Ass", true)]);
    let after = runs[1].fcts(EVERY_SIZE).mean() / runs[0].fcts(EVERY_SIZE).mean();
    let what = "mean FCT of TCP beside Kick-Ass over that among TCP".to_owned();
    let claim = (what, "does not interfere", format!("{after:.3}"), after <= 1.0 + HARM);
    let document = Document::new("TCP beside Kick-Ass under light load")
        .text(
            "NU-EECS-16-09 §4.1, which leaves out the figure. As the light load of Fig. 8, at a port with signals: kernel TCP \
             (CUBIC) from all eight senders, and from every other one with Kick-Ass from those between. The flows of those that \
             are TCP in both are compared.",
        )
        .picture("sockets-shared", FCT.chart("FCT of TCP alone and beside Kick-Ass", LIGHT, &runs))
        .table(claims([Some(claim)]));
    runs.push(only("Kick-Ass, others TCP", false));
    FCT.add_to(document, &runs)
}

/// Fig. 11: the share of time in Kick-Ass mode of long flows, through a second router with cross traffic.
pub(super) fn modes(runs: &[ForwarderRun]) -> Document {
    let interval = |run: &ForwarderRun| {
        let shares = (STEERED.of)(run)?;
        Some((shares.mean(), Z_95 * shares.standard_error()))
    };
    let [slow, fast, _] = ACCESS.map(|(title, ..)| find(runs, title).and_then(interval));
    let claimed = [
        slow.map(|(mean, half)| {
            let measured = format!("{:.1} ± {:.1} %", 100.0 * mean, 100.0 * half);
            ("time in Kick-Ass mode at 10 Mbit/s".to_owned(), "entirely", measured, mean >= 1.0 - TOLERANCE)
        }),
        slow.zip(fast).map(|(slow, fast)| {
            let what = "time in TCP mode at 100 Mbit/s, over that at 10 Mbit/s".to_owned();
            let measured = format!("{:.1} % to {:.1} %", 100.0 * (1.0 - slow.0), 100.0 * (1.0 - fast.0));
            (what, "increases", measured, fast.0 + fast.1 < slow.0 - slow.1)
        }),
    ];
    let subtitle = "two routers, 50 ms, cross traffic at the second, real sockets";
    let document = Document::new("Kick-Ass Fig. 11: time in Kick-Ass mode over two routers")
        .text(format!("NU-EECS-16-09 §4.2, Fig. 11. {PATH}"))
        .picture("sockets-fig11", STEERED.chart("Flows by their time in Kick-Ass mode", subtitle, runs))
        .table(claims(claimed));
    counts(STEERED.add_to(document, runs), runs)
}

fn modes_of(run: &ForwarderRun) -> impl Iterator<Item = Modes> {
    run.flows.iter().filter_map(|flow| flow.timed.modes)
}

/// What the bottleneck counted, and in which mode flows of Kick-Ass were.
fn counts(document: Document, runs: &[ForwarderRun]) -> Document {
    let ports = table(&["#packets dropped", "#marked", "#signals"], runs, |run| {
        Some(run.port.counts.map(|count| count.to_string()).into())
    });
    let head = [
        "#flows",
        "#time in Kick-Ass mode",
        "#signals received",
        "#to Kick-Ass mode, per flow",
        "#back for silence",
        "#back for loss or mark",
    ];
    let modes = table(&head, runs, |run| {
        let flows = modes_of(run).count();
        let sum = |of: fn(&Modes) -> f64| modes_of(run).map(|modes| of(&modes)).sum::<f64>();
        let per_flow = |of: fn(&Modes) -> f64| format!("{:.2}", sum(of) / flows as f64);
        (flows > 0).then(|| {
            vec![
                flows.to_string(),
                format!("{:.1} %", 100.0 * sum(|modes| modes.steered) / sum(|modes| modes.seconds)),
                sum(|modes| modes.signals as f64).to_string(),
                per_flow(|modes| modes.to_kickass as f64),
                per_flow(|modes| modes.by_silence as f64),
                per_flow(|modes| modes.by_congestion as f64),
            ]
        })
    });
    document.text("At the bottleneck:").table(ports).text("Modes of Kick-Ass:").table(modes)
}

#[cfg(test)]
mod tests {
    use super::{super::results::tests::run, *};

    fn tables(section: &Document) -> Vec<&Table> {
        section.tables().collect()
    }

    #[test]
    fn claims_hold_or_not_by_what_was_measured() {
        let runs =
            [run(CUBIC.title, &[0.4, 0.5]), run(PCC.title, &[1.4, 1.6]), run(KICKASS.title, &[0.2, 0.25])];
        let section = completion(&runs);
        let claims = &tables(&section)[0].rows;
        assert_eq!(claims[0][1..], ["2 on average", "2.00", "yes"]);
        assert_eq!(claims[1][1..], ["longer", "3.33", "yes"]);
        let fcts = &tables(&section)[1].rows;
        assert_eq!(fcts[0][..5], ["CUBIC, drop-tail", "2", "0.450 ± 0.050", "0.400", "0.400"]);
        assert_eq!(tables(&section)[2].rows[0], ["CUBIC, drop-tail", "4", "5", "6"]);
        let modes = tables(&section)[3];
        assert_eq!(modes.rows, [["rc3, Kick-Ass", "2", "50.0 %", "8", "1.00", "1.00", "0.00"]]);
    }

    #[test]
    fn delays_and_throughputs_are_those_of_the_port_and_the_flows() {
        let runs = [run(CUBIC.title, &[0.146, 0.146]), run(KICKASS.title, &[0.073, 0.073])];
        let section = waiting(&runs);
        assert_eq!(tables(&section)[0].rows[0][1..], ["0 ms", "1.00 ms", "no"]);
        assert_eq!(tables(&section)[1].rows[0][3..], ["0.00", "1.00", "2.00", "2.00", "2.00"]);
        assert_eq!(tables(&section)[2].rows[0][3..], ["1.00", "10.00", "10.00", "500.00", "500.00"]);
        let section = throughput(&runs);
        assert_eq!(tables(&section)[0].rows[0][1..], ["higher", "2.00", "yes"]);
        assert_eq!(tables(&section)[1].rows[0][2..5], ["8.00 ± 0.00", "8.00", "8.00"]);
    }

    #[test]
    fn a_run_beside_itself_shows_no_harm() {
        let alone = run(super::super::ALONE.title, &[0.4, 0.5, 0.6]);
        let section = shared(&alone, &alone);
        assert_eq!(tables(&section)[0].rows[0][2..], ["1.000", "yes"]);
        let rows = &tables(&section)[1].rows;
        assert_eq!(rows[0][1..], rows[1][1..]);
        let both = [0, 1].map(|nth| ForwarderRun { title: ACCESS[nth].0, ..run("Kick-Ass", &[2.0, 2.0]) });
        let section = modes(&both);
        let claims = &tables(&section)[0].rows;
        assert_eq!([claims[0][3].as_str(), claims[1][3].as_str()], ["no", "no"], "{claims:?}");
        // The first failed.
        assert!(tables(&modes(&both[1..]))[0].rows.is_empty());
    }

    #[test]
    fn a_picture_has_a_step_for_each_value() {
        let delays = DELAY.chart("", "", &[run("a", &[0.5])]);
        let steps: Vec<_> = delays.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(steps, [(0.001, 0.3), (0.01, 0.9), (0.5, 1.0)]);
        assert_eq!(delays.y.name, "packets");
        // Nothing waits, which is drawn where the axis begins.
        let backlog = BACKLOG.chart("", "", &[run("a", &[0.5])]);
        assert_eq!(backlog.series[0].points[0].x, 0.0001);
    }
}
