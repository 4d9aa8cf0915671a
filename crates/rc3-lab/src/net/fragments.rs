//! Which lengths of packets and leading fragments pass middleboxes: Kick-Ass §4.3, Fig. 12.

use std::time::Duration;

use kickass_tools::probe::{
    message::ATTEMPTS_MAX,
    report::{Report, Row, Survival},
};
use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use super::{
    error::NetError,
    experiment::Options,
    path::{Loss, Path},
    process::Process,
    report::Section,
    run::Lab,
    site::{RECEIVER, Site},
    wan::middlebox::Middlebox,
};
use crate::document::Table;

/// The experiment.
const NAME: &str = "kickass-fig12";
/// Port of the answering side.
const PORT: u16 = 14_436;
/// Time between questions.
const EVERY: Duration = Duration::from_millis(5);
/// Questions of one attempt: two for each of about 187 codes.
const QUESTIONS: u32 = 2 * 187;
/// Share of packets lost on the path without a box whose two forms are compared.
const LOSS: f64 = 0.05;
/// Neighbouring lengths of one point of the picture of losses.
const LENGTHS_PER_POINT: usize = 12;
/// Leading fragments below this are short.
const SHORT: usize = 256;
/// The MTU behind the box that rewrites: what every IPv4 host accepts (RFC 791 §3.1).
const REWRITTEN: usize = 576;
/// What the paper found.
const PRINTED_RATIO: &str = "at most 2";
/// Two-sided 95 % of a normal distribution.
const DEVIATIONS: f64 = 1.96;

/// A path that is probed.
#[derive(Debug, Clone, PartialEq)]
struct Probed {
    /// Its box, and its loss.
    name: String,
    /// Packets lost behind the box.
    loss: Loss,
    /// The result.
    report: Report,
}

impl Probed {
    fn is_lossy(&self) -> bool {
        self.loss.share > 0.0
    }
}

/// The paths of the figure: one for each box, then one that loses packets.
pub fn paths(options: &Options) -> Vec<(String, Path)> {
    let path = options.path();
    let boxes = [
        Middlebox::None,
        Middlebox::DropFragments,
        Middlebox::DropShort { bytes: SHORT },
        Middlebox::Reassemble,
        Middlebox::Refragment,
        Middlebox::Rewrite { bytes: REWRITTEN },
    ];
    let boxed = |middlebox: Middlebox| (middlebox.to_string(), Path { middlebox, ..path.clone() });
    let loss = Loss { share: LOSS, burst: 1.0 };
    let lossy = (format!("none, {} % loss", 100.0 * LOSS), Path { loss, ..path.clone() });
    boxes.map(boxed).into_iter().chain([lossy]).collect()
}

/// About how long one path takes.
fn estimate(options: &Options) -> Duration {
    EVERY * QUESTIONS * u32::from(tries(options)) + Duration::from_secs(3)
}

/// How often a probe tries each length.
fn tries(options: &Options) -> u8 {
    u8::try_from(options.runs().min(u32::from(ATTEMPTS_MAX))).unwrap_or(u8::MAX)
}

/// Probes all paths.
///
/// # Errors
/// If a process fails.
pub fn measure(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let (site, tries) = (lab.site()?, tries(&lab.options));
    let (paths, patience) = (paths(&lab.options), estimate(&lab.options));
    let mut probed = Vec::new();
    for (name, path) in &paths {
        let report = lab.step(&format!("{NAME}, {name}"), || run(&site, path, tries, patience * 4))?;
        probed.push(Probed { name: name.clone(), loss: path.loss, report });
    }
    Ok(vec![section(&paths[0].1.to_string(), tries, &probed)])
}

fn section(path: &str, tries: u8, probed: &[Probed]) -> Section {
    let mut section = Section::new(NAME)
        .text(format!(
            "{path}. Each code of a rate as the length of a whole packet with Don't Fragment, and as that of the leading \
             fragment of a packet of 1500 bytes, {tries} times each. The receiver watches lengths before its kernel \
             reassembles."
        ))
        .table(table(probed))
        .picture(NAME, kept_chart(path, probed));
    if let Some(table) = drops(probed) {
        section =
            section.text("A fragmented packet is two packets, and lost if one of them is:").table(table);
    }
    match lossy_chart(path, probed) {
        Some(chart) => section.picture(&format!("{NAME}-loss"), chart),
        None => section,
    }
}

/// Probes a path.
///
/// # Errors
/// If a process fails.
fn run(site: &Site, path: &Path, tries: u8, patience: Duration) -> Result<Report, NetError> {
    site.set_card(path)?;
    let _wan = site.start_wan(path, 1, None)?;
    let address = format!("{RECEIVER}:{PORT}");
    let listener = super::others::start(&site.receiver, "probe", &["answer", &address])?;
    listener.line()?;
    let every = format!("{}us", EVERY.as_micros());
    let words = ["probe", &address, "--tries", &tries.to_string(), "--every", &every];
    let probe: Process = super::others::start(&site.sender, "probe", &words)?;
    let line = probe.line_in(patience)?;
    Ok(serde_json::from_str(&line)?)
}

/// One row per path: what arrives, and the probe's verdict.
fn table(probed: &[Probed]) -> Table {
    let mut table = Table::new(&[
        "middlebox",
        "#whole packets",
        "#fragmented packets",
        "#with their length",
        "lengths kept",
        "verdict of the probe",
    ]);
    for Probed { name, report, .. } in probed {
        let [whole, fragmented] = totals(report);
        let percent = |share: Option<f64>| {
            share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
        };
        let kept: u32 = both(report).map(|row| row.leading.kept).sum();
        table.rows.push(vec![
            name.clone(),
            percent(whole.share()),
            percent(fragmented.share()),
            percent(Survival { sent: fragmented.sent, arrived: kept }.share()),
            kept_lengths(report),
            report.verdict(),
        ]);
    }
    table
}

/// From the shortest to the longest leading fragment that arrives with its length.
fn kept_lengths(report: &Report) -> String {
    let mut kept = report.lengths.iter().filter(|row| row.leading.kept > 0).map(|row| row.length);
    match (kept.next(), kept.next_back()) {
        (None, _) => "none".to_owned(),
        (Some(only), None) => only.to_string(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
    }
}

/// Drop rates of both forms on the path that loses packets, beside the paper's bound; `None` without such a path.
fn drops(probed: &[Probed]) -> Option<Table> {
    let Probed { name, report, .. } = lossy(probed)?;
    let [whole, fragmented] = totals(report).map(Drops::of);
    let (ratio, low, high) = fragmented.over(whole)?;
    let mut table = Table::new(&[
        "path",
        "#whole dropped",
        "#fragmented dropped",
        "#ratio",
        "#95 % interval",
        "#printed",
    ]);
    table.rows.push(vec![
        name.clone(),
        format!("{:.2} %", 100.0 * whole.share()),
        format!("{:.2} %", 100.0 * fragmented.share()),
        format!("{ratio:.2}"),
        format!("{low:.2} to {high:.2}"),
        PRINTED_RATIO.to_owned(),
    ]);
    Some(table)
}

/// Packets that did not arrive.
#[derive(Debug, Clone, Copy)]
struct Drops {
    dropped: f64,
    sent: f64,
}

impl Drops {
    fn of(Survival { sent, arrived }: Survival) -> Self {
        Self { dropped: f64::from(sent - arrived.min(sent)), sent: f64::from(sent) }
    }

    fn share(self) -> f64 {
        self.dropped / self.sent
    }

    /// The ratio of both shares and its interval, for which its logarithm is taken to be normal. `None` if one of them is
    /// zero.
    fn over(self, other: Self) -> Option<(f64, f64, f64)> {
        if self.dropped <= 0.0 || other.dropped <= 0.0 {
            return None;
        }
        let variance = |drops: Self| 1.0 / drops.dropped - 1.0 / drops.sent;
        let ratio = self.share() / other.share();
        let factor = (DEVIATIONS * (variance(self) + variance(other)).sqrt()).exp();
        Some((ratio, ratio / factor, ratio * factor))
    }
}

/// Lengths in which both forms were sent.
fn both(report: &Report) -> impl Iterator<Item = &Row> {
    report.lengths.iter().filter(|row| row.whole.sent > 0 && row.fragmented.sent > 0)
}

/// Totals of whole and of fragmented packets over the lengths in which both were sent.
fn totals(report: &Report) -> [Survival; 2] {
    both(report).fold([Survival::default(); 2], |[whole, fragmented], row| {
        [add(whole, row.whole), add(fragmented, row.fragmented)]
    })
}

fn add(sum: Survival, one: Survival) -> Survival {
    Survival { sent: sum.sent + one.sent, arrived: sum.arrived + one.arrived }
}

fn lossy(probed: &[Probed]) -> Option<&Probed> {
    probed.iter().find(|probed| probed.is_lossy())
}

/// Packets that arrive on the path that loses some, in both forms, by length; `None` without such a path.
fn lossy_chart(path: &str, probed: &[Probed]) -> Option<Chart> {
    let Probed { name, report, .. } = lossy(probed)?;
    let rows: Vec<&Row> = both(report).collect();
    let series = |nth, form: &str, of: fn(&Row) -> Survival| {
        let mean = |rows: &[&Row]| {
            let length = rows.iter().map(|row| row.length as f64).sum::<f64>() / rows.len() as f64;
            let sum = rows.iter().fold(Survival::default(), |sum, row| add(sum, of(row)));
            Some(Point::new(length, sum.share()?))
        };
        let points = rows.chunks(LENGTHS_PER_POINT).filter_map(mean).collect();
        Series { name: form.to_owned(), colour: Colour::nth(nth), shape: Shape::Marked, points }
    };
    let series = vec![series(0, "whole", |row| row.whole), series(1, "fragmented", |row| row.fragmented)];
    Some(chart("Packets that arrive", &format!("{path}; middlebox: {name}"), series))
}

/// Fragmented packets whose leading fragment keeps its length, by that length, through each box.
fn kept_chart(path: &str, probed: &[Probed]) -> Chart {
    let lossless = probed.iter().filter(|probed| !probed.is_lossy());
    let series = lossless.enumerate().map(|(nth, Probed { name, report, .. })| {
        let kept = |row: &Row| {
            let Survival { sent, .. } = row.fragmented;
            let share = Survival { sent, arrived: row.leading.kept }.share()?;
            Some(Point::new(row.length as f64, share))
        };
        let points = report.lengths.iter().filter_map(kept).collect();
        Series { name: name.clone(), colour: Colour::nth(nth), shape: Shape::Steps, points }
    });
    chart("Fragmented packets whose leading fragment keeps its length", path, series.collect())
}

fn chart(title: &str, subtitle: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: Axis::new("IP total length of the packet or of its leading fragment", Scale::Linear, Unit::Bytes),
        y: Axis::new("packets", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
        series,
        shaded: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use kickass_tools::probe::report::Lengths;

    use super::*;

    fn probed(name: &str, whole: u32, fragmented: u32, kept: u32) -> Probed {
        let row = |length| Row {
            length,
            whole: Survival { sent: 100, arrived: whole },
            fragmented: Survival { sent: 100, arrived: fragmented },
            leading: Lengths { known: fragmented, kept, reassembled: 0 },
            ..Row::default()
        };
        let report = Report { lengths: vec![row(52), row(60)], fragments_sent: true };
        let loss = Loss { share: if whole < 100 { 0.05 } else { 0.0 }, burst: 1.0 };
        Probed { name: name.to_owned(), loss, report }
    }

    #[test]
    fn rows_have_shares_lengths_and_the_verdict() {
        let rows = table(&[probed("none", 100, 100, 100), probed("other", 100, 50, 0)]).rows;
        assert_eq!(rows[0][1..5], ["100.0 %", "100.0 %", "100.0 %", "52 to 60"]);
        assert_eq!(rows[1][1..5], ["100.0 %", "50.0 %", "0.0 %", "none"]);
        assert!(rows[1][5].contains("other lengths"), "{:?}", rows[1]);
    }

    #[test]
    fn the_ratio_of_drops_has_an_interval_around_it() {
        let rows =
            drops(&[probed("none", 100, 100, 100), probed("none, 5 % loss", 95, 90, 90)]).unwrap().rows;
        assert_eq!(rows[0][1..4], ["5.00 %", "10.00 %", "2.00"]);
        // Ten and twenty of two hundred.
        assert_eq!(rows[0][4], "0.96 to 4.16");
        assert!(drops(&[probed("none", 100, 100, 100)]).is_none());
    }

    #[test]
    fn losses_and_lengths_have_pictures_of_their_own() {
        let all = [probed("none", 100, 100, 100), probed("none, 5 % loss", 95, 90, 90)];
        let lossy = lossy_chart("path", &all).unwrap();
        let shares: Vec<f64> = lossy.series.iter().map(|series| series.points[0].y).collect();
        assert_eq!(shares, [0.95, 0.9]);
        let kept = kept_chart("path", &all);
        assert_eq!(kept.series.len(), 1, "{kept:?}");
        assert_eq!(kept.series[0].points, [Point::new(52.0, 1.0), Point::new(60.0, 1.0)]);
    }
}
