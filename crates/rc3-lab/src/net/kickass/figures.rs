//! Pictures and tables of the figures, and what the paper says of them.

use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};
use rc3_text::units::three_digits;

use super::{CUBIC, FQ_CODEL, KICKASS, KICKASS_FCT, KICKASS_RLP, PCC, Setting, results::Run};
use crate::{
    document::{Document, Table},
    net::{
        act::load::Arrived,
        charts::chart,
        transport::{Modes, Transport},
    },
    statistics::Sample,
};

/// Sizes in packets of which flows are reported together; the law has none below 44.
const BINS: [(f64, f64); 5] = [(1.0, 60.0), (60.0, 100.0), (100.0, 200.0), (200.0, 500.0), (500.0, 2001.0)];
const EVERY_SIZE: (f64, f64) = (0.0, f64::INFINITY);
/// What has not waited is drawn here: there is no zero on the axis.
const SHORTEST: f64 = 0.0001;
/// What is the same within so much is unharmed.
const HARM: f64 = 0.03;
/// Two-sided 95 % of a normal distribution.
const DEVIATIONS: f64 = 1.96;
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
const PATH: &str = "Two senders in one network namespace, a kickass forward with signals whose link has the rate of the access, \
                    a namespace that forwards, a second kickass forward of 100 Mbit/s without signals, and the receiver in a \
                    third namespace. The round trip is 50 ms. Cross traffic enters between the routers: 32 senders of kernel \
                    TCP (CUBIC) with the sizes and silences of the light load, about half of the second link. Flows have 5 MB \
                    at 10 Mbit/s and 20 MB at 100 Mbit/s. The paper's path is the Internet, 2000 miles long, with unknown \
                    cross traffic; its flows and their number are not printed, nor numbers of the figure. A flow counts from \
                    connect, so that the handshake and the round trip before its first rate count as TCP mode.";

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

fn find<'a>(runs: &'a [Run], setting: &Setting) -> Option<&'a Run> {
    runs.iter().find(|run| run.title == setting.title)
}

/// A row for each run, in order: its title, and these cells.
fn table(head: &[&str], runs: &[Run], cells: impl Fn(&Run) -> Option<Vec<String>>) -> Table {
    let mut table = Table::new(std::iter::once("run").chain(head.iter().copied()));
    for run in runs {
        if let Some(cells) = cells(run) {
            table.row(run.title, cells);
        }
    }
    table
}

/// A line for each run: the share of what is not above a value.
fn distribution<I: Iterator<Item = (f64, f64)>>(
    title: &str,
    subtitle: &str,
    (x, y): (Axis, &str),
    runs: &[Run],
    values: impl Fn(&Run) -> Option<I>,
) -> Chart {
    let line = |run: &Run| Some(run.series(Shape::Line, values(run)?.map(|(x, y)| Point::new(x, y))));
    let y = Axis::new(y, Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
    chart(title, subtitle, x, y, runs.iter().filter_map(line))
}

fn points(sample: &Sample) -> std::vec::IntoIter<(f64, f64)> {
    sample.distribution().collect::<Vec<_>>().into_iter()
}

/// Number of flows, mean completion time with its standard error, median and 99 %.
fn fct_cells(fcts: &Sample) -> Vec<String> {
    vec![
        fcts.len().to_string(),
        format!("{:.3} ± {:.3}", fcts.mean(), fcts.standard_error()),
        format!("{:.3}", fcts.quantile(0.5)),
        format!("{:.3}", fcts.quantile(0.99)),
    ]
}

/// Fig. 8: completion times under light load.
pub(super) fn completion(runs: &[Run]) -> Document {
    let all = |run: &Run| run.fcts(EVERY_SIZE);
    let mean = |setting: &Setting| find(runs, setting).map(|run| all(run).mean());
    let cubic = mean(&CUBIC).unwrap_or(f64::NAN);
    let kickass = [KICKASS, KICKASS_FCT, KICKASS_RLP].map(|setting| {
        let over = mean(&setting).map(|fct| cubic / fct);
        ratio(format!("mean FCT of CUBIC over that of {}", setting.title), "2 on average", over, |over| {
            over >= 2.0
        })
    });
    let over_cubic = |setting: &Setting| mean(setting).map(|fct| fct / cubic);
    let pcc = ratio("mean FCT of PCC over that of CUBIC", "longer", over_cubic(&PCC), |over| over > 1.0);
    let what = "mean FCT with FQ-CoDel and ECN over that without";
    let fq_codel = ratio(what, "no improvement", over_cubic(&FQ_CODEL), |over| over >= 0.9);
    let head = ["#flows", "#mean FCT, s", "#median", "#99 %"];
    let overall = table(
        &[&head[..], &["#CUBIC's mean over it", "#packets dropped", "#marked", "#signals"]].concat(),
        runs,
        |run| {
            let fcts = all(run);
            let factor = three_digits(cubic / fcts.mean());
            let counts = run.port.counts.map(|count| count.to_string());
            Some([fct_cells(&fcts), vec![factor], counts.into()].concat())
        },
    );
    let mut section = Document::new("Kick-Ass Fig. 8: completion times under light load")
        .text(format!("NU-EECS-16-09 §4.1, Fig. 8. {TESTBED} 100 Mbit/s; 100 packets of 1460 bytes and 0.5 s on average."))
        .text(VARIANTS)
        .picture("sockets-fig8", by_size(runs))
        .picture(
            "sockets-fig8-2",
            distribution(
                "Distribution of the FCT under light load",
                LIGHT,
                (Axis::new("FCT", Scale::Log, Unit::Seconds), "flows"),
                runs,
                |run| Some(points(&all(run))),
            ),
        )
        .table(claims(kickass.into_iter().chain([pcc, fq_codel])))
        .text("All flows:")
        .table(overall)
        .text("Modes of Kick-Ass:")
        .table(modes_table(runs));
    for (from, to) in BINS {
        let of_size =
            |run: &Run| Some(run.fcts((from, to))).filter(|fcts| fcts.len() > 1).map(|fcts| fct_cells(&fcts));
        let table = table(&head, runs, of_size);
        if !table.rows.is_empty() {
            section = section.text(format!("{from} to {} packets:", to - 1.0)).table(table);
        }
    }
    section
}

fn by_size(runs: &[Run]) -> Chart {
    let names = BINS.map(|(from, to)| format!("{from} to {}", to - 1.0)).to_vec();
    let bars = |run: &Run| {
        let bins = BINS.iter().enumerate().map(|(x, bin)| (x as f64, run.fcts(*bin)));
        let bins = bins.filter(|(_, fcts)| fcts.len() > 1);
        run.series(
            Shape::Bars,
            bins.map(|(x, fcts)| Point { x, y: fcts.mean(), error: Some(fcts.standard_error()) }),
        )
    };
    let x = Axis::new("packets", Scale::Names(names), Unit::Number);
    let y = Axis::new("FCT", Scale::Linear, Unit::Seconds).starting(0.0);
    chart("Mean FCT under light load", LIGHT, x, y, runs.iter().map(bars))
}

/// Fig. 9: how long packets wait at the bottleneck under heavy load.
pub(super) fn waiting(runs: &[Run]) -> Document {
    let axis = || Axis::new("queueing delay", Scale::Log, Unit::Seconds).starting(SHORTEST);
    let subtitle = format!("{HEAVY}; no delay at all is drawn as 0.1 ms");
    let drawn = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x.max(SHORTEST), y));
    let over_time = distribution(
        "Instantaneous queueing delay under heavy load",
        &subtitle,
        (axis(), "time"),
        runs,
        |run| Some(drawn(run.port.backlog.as_ref()?.distribution().collect())),
    );
    let over_packets = distribution(
        "Queueing delay of packets under heavy load",
        &subtitle,
        (axis(), "packets"),
        runs,
        |run| Some(drawn(run.port.distribution().collect())),
    );
    let median = |setting: &Setting| {
        let median = 1e3 * find(runs, setting)?.port.backlog.as_ref()?.quantile(0.5);
        let what = format!("median queueing delay of {} over time", setting.title);
        Some((what, "0 ms", format!("{median:.2} ms"), median < 0.5))
    };
    let longest = |setting: &Setting| {
        let longest = find(runs, setting)?.port.delay(1.0);
        let what = format!("longest queueing delay of {}", setting.title);
        Some((what, "above 1 s", format!("{longest:.2} s"), longest > 1.0))
    };
    let claimed = [median(&KICKASS), median(&KICKASS_FCT), longest(&CUBIC), longest(&PCC)];
    let shares = [0.5, 0.75, 0.9, 0.99, 1.0];
    let head = ["#median, ms", "#75 %", "#90 %", "#99 %", "#longest"];
    let backlogs = table(&[&head[..], &["#mean"]].concat(), runs, |run| {
        let backlog = run.port.backlog.as_ref()?;
        let values = shares.map(|share| backlog.quantile(share)).into_iter().chain([backlog.mean()]);
        Some(values.map(|seconds| format!("{:.2}", 1e3 * seconds)).collect())
    });
    let more = ["#below 1 ms", "#packets dropped", "#marked", "#signals"];
    let delays = table(&[&head[..], &more].concat(), runs, |run| {
        let delays = shares.map(|share| format!("{:.2}", 1e3 * run.port.delay(share)));
        let below = format!("{:.1} %", 100.0 * run.port.share_within(0.001));
        Some([delays.into(), vec![below], run.port.counts.map(|count| count.to_string()).into()].concat())
    });
    Document::new("Kick-Ass Fig. 9: queueing delay under heavy load")
        .text(format!("NU-EECS-16-09 §4.1, Fig. 9. {TESTBED} 10 Mbit/s; 1 MB and 8 s on average."))
        .text(VARIANTS)
        .text(
            "Of the queue, looked at 20 times per second, what is drawn is how long it would take to send it, and of packets, \
             how long each has waited, to 5 % of it. With RLP these are the packets of the primary level, and the whole queue \
             says nothing about their delay.",
        )
        .picture("sockets-fig9", over_time)
        .picture("sockets-fig9-2", over_packets)
        .table(claims(claimed))
        .text("Over time:")
        .table(backlogs)
        .text("Over packets:")
        .table(delays)
}

/// Fig. 10: the throughput of each flow under heavy load.
pub(super) fn throughput(runs: &[Run]) -> Document {
    let rates = |run: &Run| -> Sample {
        run.flows.iter().map(|flow| 8.0 * flow.bytes as f64 / flow.timed.total()).collect()
    };
    let median = |setting: &Setting| find(runs, setting).map(|run| rates(run).quantile(0.5));
    let claim = |setting: &Setting| {
        let what = format!("median throughput of Kick-Ass over that of {}", setting.title);
        let over = median(&KICKASS).zip(median(setting)).map(|(kickass, other)| kickass / other);
        ratio(what, "higher", over, |over| over > 1.0)
    };
    let head = ["#flows", "#mean, Mbit/s", "#10 %", "#median", "#90 %", "#mean FCT, s"];
    let rows = table(&head, runs, |run| {
        let (rates, fcts) = (rates(run), run.fcts(EVERY_SIZE));
        let values = [rates.mean(), rates.quantile(0.1), rates.quantile(0.5), rates.quantile(0.9)];
        let values = values.map(|rate| format!("{:.2}", rate / 1e6));
        let fct = format!("{:.2} ± {:.2}", fcts.mean(), fcts.standard_error());
        Some([vec![rates.len().to_string()], values.into(), vec![fct]].concat())
    });
    let x = Axis::new("throughput of a flow", Scale::Linear, Unit::BitsPerSecond).starting(0.0);
    Document::new("Kick-Ass Fig. 10: throughput of flows under heavy load")
        .text("NU-EECS-16-09 §4.1, Fig. 10. Bytes by the time from connect to the last byte, of the flows that all runs have.")
        .picture(
            "sockets-fig10",
            distribution("Throughput of flows under heavy load", HEAVY, (x, "flows"), runs, |run| {
                Some(points(&rates(run)))
            }),
        )
        .table(claims([CUBIC, FQ_CODEL, PCC].iter().map(claim)))
        .table(rows)
        .text("Modes of Kick-Ass:")
        .table(modes_table(runs))
}

/// Kernel TCP beside Kick-Ass at a port with signals, under light load.
pub(super) fn shared(alone: &Run, shared: &Run) -> Document {
    let only = |run: &Run, keep: &dyn Fn(&Arrived) -> bool| {
        let flows = run.flows.iter().filter(|flow| keep(flow)).cloned().collect();
        Run { flows, ..run.clone() }
    };
    let (beside, kickass) = (only(shared, &|flow| is_tcp(flow)), only(shared, &|flow| !is_tcp(flow)));
    let paired = super::results::compared(&[alone.clone(), beside]);
    let fcts = |run: &Run| run.fcts(EVERY_SIZE);
    let after = fcts(&paired[1]).mean() / fcts(&paired[0]).mean();
    let rows = [
        ("TCP, others TCP", &paired[0]),
        ("TCP, others Kick-Ass", &paired[1]),
        ("Kick-Ass, others TCP", &kickass),
    ];
    let rows: Vec<Run> = rows.map(|(title, run)| Run { title, ..run.clone() }).into();
    let claim = (
        "mean FCT of TCP beside Kick-Ass over that among TCP".to_owned(),
        "does not interfere",
        format!("{after:.3}"),
        after <= 1.0 + HARM,
    );
    Document::new("TCP beside Kick-Ass under light load")
        .text(
            "NU-EECS-16-09 §4.1, which leaves out the figure. As the light load of Fig. 8, at a port with signals: kernel TCP \
             (CUBIC) from all eight senders, and from every other one with Kick-Ass from those between. The flows of those that \
             are TCP in both are compared.",
        )
        .picture(
            "sockets-shared",
            distribution(
                "FCT of TCP alone and beside Kick-Ass",
                LIGHT,
                (Axis::new("FCT", Scale::Log, Unit::Seconds), "flows"),
                &paired,
                |run| Some(points(&fcts(run))),
            ),
        )
        .table(claims([Some(claim)]))
        .table(table(&["#flows", "#mean FCT, s", "#median", "#99 %"], &rows, |run| Some(fct_cells(&fcts(run)))))
}

fn is_tcp(flow: &Arrived) -> bool {
    flow.scheme == Transport::Tcp.name()
}

/// Fig. 11: the share of time in Kick-Ass mode of long flows, through a second router with cross traffic.
pub(super) fn modes(runs: &[Run]) -> Document {
    let shares = |run: &Run| -> Sample { modes_of(run).map(|modes| modes.steered / modes.seconds).collect() };
    let interval = |run: &Run| {
        let shares = shares(run);
        (shares.mean(), DEVIATIONS * shares.standard_error())
    };
    let text = |(mean, half): (f64, f64)| format!("{:.1} ± {:.1} %", 100.0 * mean, 100.0 * half);
    let (slow, fast) = (runs.first().map(interval), runs.get(1).map(interval));
    let claimed = [
        slow.map(|slow| {
            let what = "time in Kick-Ass mode at 10 Mbit/s".to_owned();
            (what, "entirely", text(slow), slow.0 >= 1.0 - TOLERANCE)
        }),
        slow.zip(fast).map(|(slow, fast)| {
            let what = "time in TCP mode at 100 Mbit/s, over that at 10 Mbit/s".to_owned();
            let measured = format!("{:.1} % to {:.1} %", 100.0 * (1.0 - slow.0), 100.0 * (1.0 - fast.0));
            (what, "increases", measured, fast.0 + fast.1 < slow.0 - slow.1)
        }),
    ];
    let at_least = |run: &Run| {
        let shares = shares(run);
        let flows = shares.len() as f64;
        // Those above, and the flow itself.
        let points = points(&shares).map(move |(share, up_to)| (share, 1.0 - up_to + 1.0 / flows));
        Some([(0.0, 1.0)].into_iter().chain(points))
    };
    let x = Axis::new("share of time in Kick-Ass mode, at least", Scale::Linear, Unit::Share);
    let subtitle = "two routers, 50 ms, cross traffic at the second, real sockets";
    let rows = table(&["#flows", "#mean, 95 % interval", "#lowest", "#median", "#highest"], runs, |run| {
        let shares = shares(run);
        let parts = [0.0, 0.5, 1.0].map(|part| format!("{:.1} %", 100.0 * shares.quantile(part)));
        Some([vec![shares.len().to_string(), text(interval(run))], parts.into()].concat())
    });
    Document::new("Kick-Ass Fig. 11: time in Kick-Ass mode over two routers")
        .text(format!("NU-EECS-16-09 §4.2, Fig. 11. {PATH}"))
        .picture(
            "sockets-fig11",
            distribution(
                "Flows by their share of time in Kick-Ass mode",
                subtitle,
                (x.starting(0.0).ending(1.0), "flows"),
                runs,
                at_least,
            ),
        )
        .table(claims(claimed))
        .table(rows)
        .text("Modes of Kick-Ass:")
        .table(modes_table(runs))
}

fn modes_of(run: &Run) -> impl Iterator<Item = Modes> {
    run.steered.iter().filter_map(|flow| flow.timed.modes)
}

/// In which mode flows of Kick-Ass were.
fn modes_table(runs: &[Run]) -> Table {
    let head = [
        "#flows",
        "#time in Kick-Ass mode",
        "#signals received",
        "#to Kick-Ass mode, per flow",
        "#back for silence",
        "#back for loss or mark",
    ];
    table(&head, runs, |run| {
        let flows = modes_of(run).count();
        let sum = |of: fn(&Modes) -> f64| modes_of(run).map(|modes| of(&modes)).sum::<f64>();
        let per_flow = |of: fn(&Modes) -> u64| {
            format!("{:.2}", modes_of(run).map(|modes| of(&modes)).sum::<u64>() as f64 / flows as f64)
        };
        (flows > 0).then(|| {
            vec![
                flows.to_string(),
                format!("{:.1} %", 100.0 * sum(|modes| modes.steered) / sum(|modes| modes.seconds)),
                modes_of(run).map(|modes| modes.signals).sum::<u64>().to_string(),
                per_flow(|modes| modes.to_kickass),
                per_flow(|modes| modes.by_silence),
                per_flow(|modes| modes.by_congestion),
            ]
        })
    })
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
        let overall = tables(&section)[1];
        assert_eq!(
            overall.rows[0],
            ["CUBIC, drop-tail", "2", "0.450 ± 0.050", "0.400", "0.500", "1", "4", "5", "6"]
        );
        let modes = tables(&section)[2];
        assert_eq!(modes.rows, [["rc3, Kick-Ass", "2", "50.0 %", "8", "1.00", "1.00", "0.00"]]);
    }

    #[test]
    fn delays_and_throughputs_are_those_of_the_port_and_the_flows() {
        let runs = [run(CUBIC.title, &[0.146, 0.146]), run(KICKASS.title, &[0.073, 0.073])];
        let section = waiting(&runs);
        assert_eq!(tables(&section)[0].rows[0][1..], ["0 ms", "1.00 ms", "no"]);
        assert_eq!(tables(&section)[1].rows[0][1..], ["1.00", "2.00", "2.00", "2.00", "2.00", "1.00"]);
        assert_eq!(tables(&section)[2].rows[0][1..6], ["10.00", "10.00", "10.00", "500.00", "500.00"]);
        let section = throughput(&runs);
        assert_eq!(tables(&section)[0].rows[0][1..], ["higher", "2.00", "yes"]);
        assert_eq!(tables(&section)[1].rows[0][2..6], ["8.00", "8.00", "8.00", "8.00"]);
    }

    #[test]
    fn a_run_beside_itself_shows_no_harm() {
        let alone = run(super::super::ALONE.title, &[0.4, 0.5, 0.6]);
        let section = shared(&alone, &alone);
        assert_eq!(tables(&section)[0].rows[0][2..], ["1.000", "yes"]);
        let rows = &tables(&section)[1].rows;
        assert_eq!(rows[0][1..], rows[1][1..]);
        let section = modes(&[run("Kick-Ass a", &[2.0, 2.0]), run("Kick-Ass b", &[2.0, 2.0])]);
        let claims = &tables(&section)[0].rows;
        assert_eq!([claims[0][3].as_str(), claims[1][3].as_str()], ["no", "no"], "{claims:?}");
    }
}
