//! Which lengths of packets and leading fragments pass middleboxes: Kick-Ass §4.3, Fig. 12.

use std::time::Duration;

use kickass_tools::probe::{
    message::ATTEMPTS_MAX,
    report::{LengthResult, ProbeReport, Survival},
};
use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use super::{
    act::Job,
    error::NetError,
    path::{Loss, Path},
    process::Process,
    run::Lab,
    site::Site,
    wan::middlebox::Middlebox,
};
use crate::{
    document::{Document, Table},
    statistics::Z_95,
};

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
/// The boxes. Leading fragments below 256 bytes are short; what every IPv4 host accepts is 576 bytes long (RFC 791 §3.1).
pub(super) const BOXES: [Middlebox; 6] = [
    Middlebox::None,
    Middlebox::DropFragments,
    Middlebox::DropShort { bytes: 256 },
    Middlebox::Reassemble,
    Middlebox::Refragment,
    Middlebox::Rewrite { bytes: 576 },
];

/// The name of a path, and what was measured.
type Probed = (String, ProbeReport);

/// Probes one path for each box, then one that loses packets.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let path = lab.options.path();
    let site = lab.site(&path)?;
    // How often a probe tries each length.
    let tries = u8::try_from(lab.options.runs().min(ATTEMPTS_MAX.into())).unwrap_or(u8::MAX);
    let mut measure = |name: String, path: Path| {
        let report = lab.attempt(&format!("{NAME}, {name}"), || probe(&site, &path, tries))?;
        Some((name, report))
    };
    let boxed = |middlebox: Middlebox| measure(middlebox.to_string(), Path { middlebox, ..path.clone() });
    let boxes: Vec<_> = BOXES.into_iter().filter_map(boxed).collect();
    let loss = Loss { share: LOSS, burst: 1.0 };
    let lossy = measure(format!("none, {} % loss", 100.0 * LOSS), Path { loss, ..path.clone() });
    if boxes.is_empty() && lossy.is_none() {
        return Ok(Vec::new());
    }
    Ok(vec![section(&path.to_string(), tries, &boxes, lossy)])
}

/// Probes a path.
fn probe(site: &Site, path: &Path, tries: u8) -> Result<ProbeReport, NetError> {
    let _wan = site.start_wan(path, 1)?;
    let address = Site::address(PORT);
    let listener = Process::job("probe", &site.receiver, &Job::Answer(address))?;
    listener.line()?;
    let probe = Process::job("probe", &site.sender, &Job::Probe(address, tries, EVERY))?;
    let patience = (EVERY * QUESTIONS * u32::from(tries) + Duration::from_secs(3)) * 4;
    Ok(serde_json::from_str(&probe.line_in(patience)?)?)
}

/// What was measured of the boxes, and of the path that loses packets.
fn section(path: &str, tries: u8, boxes: &[Probed], lossy: Option<Probed>) -> Document {
    let mut section = Document::new(NAME)
        .text(format!(
            "{path}. Each code of a rate as the length of a whole packet with Don't Fragment, and as that of the leading \
             fragment of a packet of 1500 bytes, {tries} times each. The receiver watches lengths before its kernel \
             reassembles."
        ))
        .table(table(boxes.iter().chain(&lossy)));
    if !boxes.is_empty() {
        section = section.picture(NAME, kept_chart(path, boxes));
    }
    let Some((name, lossy)) = lossy else { return section };
    if let Some(table) = drops(&name, &lossy) {
        section =
            section.text("A fragmented packet is two packets, and lost if one of them is:").table(table);
    }
    section.picture(format!("{NAME}-loss"), lossy_chart(&format!("{path}; middlebox: {name}"), &lossy))
}

/// One row per path: what arrives, and the probe's verdict.
fn table<'a>(probed: impl IntoIterator<Item = &'a Probed>) -> Table {
    let mut table = Table::new([
        "middlebox",
        "#whole packets",
        "#fragmented packets",
        "#with their length",
        "lengths kept",
        "verdict of the probe",
    ]);
    for (name, report) in probed {
        let [whole, fragmented] = totals(report);
        let arrived = both(report).map(|row| row.leading.kept).sum();
        let shares = [whole, fragmented, Survival { sent: fragmented.sent, arrived }].map(|survival| {
            survival.share().map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
        });
        // From the shortest to the longest leading fragment that arrives with its length.
        let mut kept = report.lengths.iter().filter(|row| row.leading.kept > 0).map(|row| row.length);
        let kept = match (kept.next(), kept.next_back()) {
            (None, _) => "none".to_owned(),
            (Some(only), None) => only.to_string(),
            (Some(first), Some(last)) => format!("{first} to {last}"),
        };
        table.row(name, shares.into_iter().chain([kept, report.verdict()]));
    }
    table
}

/// Drop rates of both forms on the path that loses packets, beside the paper's bound; `None` if one of them is zero. The
/// logarithm of their ratio is taken to be normal.
fn drops(name: &str, report: &ProbeReport) -> Option<Table> {
    let [whole, fragmented] = totals(report)
        .map(|Survival { sent, arrived }| (f64::from(sent - arrived.min(sent)), f64::from(sent)));
    if whole.0 <= 0.0 || fragmented.0 <= 0.0 {
        return None;
    }
    let share = |(dropped, sent): (f64, f64)| dropped / sent;
    let variance = |(dropped, sent): (f64, f64)| 1.0 / dropped - 1.0 / sent;
    let ratio = share(fragmented) / share(whole);
    let factor = (Z_95 * (variance(fragmented) + variance(whole)).sqrt()).exp();
    let mut table =
        Table::new(["path", "#whole dropped", "#fragmented dropped", "#ratio", "#95 % interval", "#printed"]);
    let row = [
        format!("{:.2} %", 100.0 * share(whole)),
        format!("{:.2} %", 100.0 * share(fragmented)),
        format!("{ratio:.2}"),
        format!("{:.2} to {:.2}", ratio / factor, ratio * factor),
        "at most 2".to_owned(),
    ];
    table.row(name, row);
    Some(table)
}

/// Lengths in which both forms were sent.
fn both(report: &ProbeReport) -> impl Iterator<Item = &LengthResult> {
    report.lengths.iter().filter(|row| row.whole.sent > 0 && row.fragmented.sent > 0)
}

/// Totals of whole and of fragmented packets over the lengths in which both were sent.
fn totals(report: &ProbeReport) -> [Survival; 2] {
    [sum(both(report).map(|row| row.whole)), sum(both(report).map(|row| row.fragmented))]
}

fn sum(all: impl Iterator<Item = Survival>) -> Survival {
    all.fold(Survival::default(), |sum, one| Survival {
        sent: sum.sent + one.sent,
        arrived: sum.arrived + one.arrived,
    })
}

/// Packets that arrive on the path that loses some, in both forms, by length.
fn lossy_chart(subtitle: &str, report: &ProbeReport) -> Chart {
    let rows: Vec<&LengthResult> = both(report).collect();
    let forms = ["whole", "fragmented"].into_iter().enumerate().map(|(nth, form)| {
        let of = |row: &LengthResult| if nth == 0 { row.whole } else { row.fragmented };
        let mean = |rows: &[&LengthResult]| {
            let length = rows.iter().map(|row| row.length as f64).sum::<f64>() / rows.len() as f64;
            Some(Point::new(length, sum(rows.iter().map(|row| of(row))).share()?))
        };
        let points = rows.chunks(LENGTHS_PER_POINT).filter_map(mean);
        Series::new(form, Colour::nth(nth), Shape::Marked, points)
    });
    chart("Packets that arrive", subtitle, forms)
}

/// Fragmented packets whose leading fragment keeps its length, by that length, through each box.
fn kept_chart(path: &str, boxes: &[Probed]) -> Chart {
    let of = |(nth, (name, report)): (usize, &Probed)| {
        let kept = |row: &LengthResult| {
            let (sent, arrived) = (row.fragmented.sent, row.leading.kept);
            Some(Point::new(row.length as f64, Survival { sent, arrived }.share()?))
        };
        Series::new(name, Colour::nth(nth), Shape::Steps, report.lengths.iter().filter_map(kept))
    };
    let title = "Fragmented packets whose leading fragment keeps its length";
    chart(title, path, boxes.iter().enumerate().map(of))
}

fn chart(title: &str, subtitle: &str, series: impl Iterator<Item = Series>) -> Chart {
    let x = Axis::new("IP total length of the packet or of its leading fragment", Scale::Linear, Unit::Bytes);
    let y = Axis::new("packets", Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
    Chart::new(title, subtitle, x, y, series)
}

#[cfg(test)]
mod tests {
    use kickass_tools::probe::report::Lengths;

    use super::*;

    fn probed(name: &str, whole: u32, fragmented: u32, kept: u32) -> Probed {
        let row = |length| LengthResult {
            length,
            whole: Survival { sent: 100, arrived: whole },
            fragmented: Survival { sent: 100, arrived: fragmented },
            leading: Lengths { known: fragmented, kept, reassembled: 0 },
            ..LengthResult::default()
        };
        (name.to_owned(), ProbeReport { lengths: vec![row(52), row(60)], fragments_sent: true })
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
        let rows = drops("lossy", &probed("", 95, 90, 90).1).unwrap().rows;
        assert_eq!(rows[0][1..4], ["5.00 %", "10.00 %", "2.00"]);
        // Ten and twenty of two hundred.
        assert_eq!(rows[0][4], "0.96 to 4.16");
        assert!(drops("", &probed("", 100, 100, 100).1).is_none());
    }

    #[test]
    fn losses_and_lengths_have_pictures_of_their_own() {
        let lossy = lossy_chart("path", &probed("none, 5 % loss", 95, 90, 90).1);
        let shares: Vec<f64> = lossy.series.iter().map(|series| series.points[0].y).collect();
        assert_eq!(shares, [0.95, 0.9]);
        let kept = kept_chart("path", &[probed("none", 100, 100, 100)]);
        assert_eq!(kept.series[0].points, [Point::new(52.0, 1.0), Point::new(60.0, 1.0)]);
    }
}
