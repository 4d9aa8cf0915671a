//! What a sweep has found: as words, as JSON, as a picture.

use std::collections::BTreeMap;

use kickass::code::Code;
use serde::Serialize;

use super::message::Form;
use crate::sim::picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

/// Bytes of an IPv4 header.
const HEADER: usize = 20;

/// What became of the questions of one length and form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Survival {
    /// Questions that left this host.
    pub sent: u32,
    /// Those that were answered.
    pub arrived: u32,
}

impl Survival {
    /// Part that arrived; `None` if nothing was sent.
    pub fn share(self) -> Option<f64> {
        (self.sent > 0).then(|| f64::from(self.arrived) / f64::from(self.sent))
    }
}

/// Of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Row {
    /// IP total length of the whole packet, or of the leading fragment.
    pub length: usize,
    /// Of whole packets.
    pub whole: Survival,
    /// Of fragmented packets.
    pub fragmented: Survival,
}

/// Of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// By length, shortest first.
    pub lengths: Vec<Row>,
    /// Whether fragments could be sent at all.
    pub fragments_sent: bool,
}

impl Report {
    pub(super) fn new(found: &BTreeMap<(Code, Form), Survival>) -> Self {
        let row = |code: Code| {
            let of = |form| found.get(&(code, form)).copied().unwrap_or_default();
            Row {
                length: HEADER + code.payload_len(),
                whole: of(Form::Whole),
                fragmented: of(Form::Fragmented),
            }
        };
        let lengths: Vec<Row> =
            Code::all().map(row).filter(|row| row.whole.sent + row.fragmented.sent > 0).collect();
        let fragments_sent = lengths.iter().any(|row| row.fragmented.sent > 0);
        Self { lengths, fragments_sent }
    }

    /// Whether anything arrived.
    pub fn is_answered(&self) -> bool {
        self.lengths.iter().any(|row| row.whole.arrived + row.fragmented.arrived > 0)
    }

    /// A line for each range of lengths that fared alike.
    pub fn text(&self) -> String {
        let mut text =
            format!("{:>16}  {:>14}  {:>18}\n", "IP total length", "whole packets", "leading fragments");
        let alike = |a: &Row, b: &Row| (a.whole, a.fragmented) == (b.whole, b.fragmented);
        for rows in self.lengths.chunk_by(alike) {
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                let range = match first.length == last.length {
                    true => first.length.to_string(),
                    false => format!("{} to {}", first.length, last.length),
                };
                let share = |survival: Survival| {
                    survival.share().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
                };
                text +=
                    &format!("{range:>16}  {:>14}  {:>18}\n", share(first.whole), share(first.fragmented));
            }
        }
        text + self.meaning()
    }

    fn meaning(&self) -> &'static str {
        let arrived = |of: fn(&Row) -> Survival| self.lengths.iter().map(|row| of(row).arrived).sum::<u32>();
        match (arrived(|row| row.whole), arrived(|row| row.fragmented)) {
            (0, 0) => "Nothing was answered.\n",
            _ if !self.fragments_sent => {
                "Whole packets only: fragments need CAP_NET_RAW, run it as root for those.\n"
            }
            (_, 0) => "No fragment survives this path: leave Don't Fragment set on it.\n",
            _ => "Fragments survive this path.\n",
        }
    }

    /// One JSON object on a line.
    ///
    /// # Errors
    /// None that can happen.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Survival by length.
    pub fn chart(&self, target: &str) -> Chart {
        let series = |name: &str, nth, of: fn(&Row) -> Survival| Series {
            name: name.to_owned(),
            colour: Colour::nth(nth),
            shape: Shape::Line,
            points: self
                .lengths
                .iter()
                .filter_map(|row| Some(Point::new(row.length as f64, of(row).share()?)))
                .collect(),
        };
        let all = [
            series("whole packets", 0, |row| row.whole),
            series("fragmented packets", 1, |row| row.fragmented),
        ];
        Chart {
            title: "Packets that survive".to_owned(),
            subtitle: format!("to {target}, by IP total length of the packet or of its leading fragment"),
            x: Axis::new("length", Scale::Linear, Unit::Bytes),
            y: Axis::new("arrived", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
            series: all.into_iter().filter(|series| !series.points.is_empty()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(fragmented: u32) -> Report {
        let survival = |arrived| Survival { sent: 3, arrived };
        let mut found = BTreeMap::new();
        for code in Code::all() {
            found.insert((code, Form::Whole), survival(if code.payload_len() > 1000 { 0 } else { 3 }));
            found.insert((code, Form::Fragmented), survival(fragmented));
        }
        Report::new(&found)
    }

    #[test]
    fn lengths_that_fare_alike_are_one_line() {
        let text = report(3).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].contains("44 to 1020") && lines[1].matches("100 %").count() == 2, "{text}");
        assert!(lines[2].contains("1028 to 1500") && lines[2].contains(" 0 %"), "{text}");
        assert!(lines[3].starts_with("Fragments survive"), "{text}");
    }

    #[test]
    fn a_path_without_fragments_is_named() {
        assert!(report(0).text().contains("No fragment survives"));
        let chart = report(0).chart("host");
        assert_eq!(chart.series.len(), 2);
        assert_eq!(chart.series[0].points.len(), Code::COUNT);
        assert!(Report::new(&BTreeMap::new()).text().contains("Nothing was answered"));
    }
}
