//! The result of a sweep as text, JSON and picture.

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};
use serde::{Deserialize, Serialize};

use super::message::Form;

/// Results for one length and form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Survival {
    /// Questions that left this host.
    pub sent: u32,
    /// Questions answered.
    pub arrived: u32,
}

impl Survival {
    /// Fraction that was answered; `None` if none was sent.
    pub fn share(self) -> Option<f64> {
        (self.sent > 0).then(|| f64::from(self.arrived) / f64::from(self.sent))
    }
}

/// How the leading fragments of questions arrived that the other host could watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lengths {
    /// Fragmented questions that it has seen arrive.
    pub known: u32,
    /// Of them, those whose leading fragment had the length in which it was sent.
    pub kept: u32,
    /// Of them, those that arrived as one packet.
    pub reassembled: u32,
}

impl Lengths {
    /// Fraction that kept its length; `None` if the other host saw none.
    pub fn share(self) -> Option<f64> {
        (self.known > 0).then(|| f64::from(self.kept) / f64::from(self.known))
    }
}

/// Results for one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LengthResult {
    /// IP total length of the whole packet, or of the leading fragment.
    pub length: usize,
    /// Of whole packets.
    pub whole: Survival,
    /// Of whole packets with a Fragment header; only in IPv6.
    pub atomic: Survival,
    /// Of fragmented packets.
    pub fragmented: Survival,
    /// The lengths in which leading fragments arrived.
    pub leading: Lengths,
}

impl LengthResult {
    /// Of each form.
    pub(super) fn of(&self) -> [Survival; 3] {
        [self.whole, self.atomic, self.fragmented]
    }

    pub(super) fn of_mut(&mut self, form: Form) -> &mut Survival {
        match form {
            Form::Whole => &mut self.whole,
            Form::Atomic => &mut self.atomic,
            Form::Fragmented => &mut self.fragmented,
        }
    }
}

/// The forms, in this order.
const NAMES: [&str; 3] = ["whole packets", "with Fragment header", "leading fragments"];

/// The same in a picture.
const SERIES: [&str; 3] = ["whole packets", "with Fragment header", "fragmented packets"];

/// Results for a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// By length, shortest first.
    pub lengths: Vec<LengthResult>,
    /// Whether fragments could be sent at all.
    pub fragments_sent: bool,
}

impl ProbeReport {
    /// Whether anything arrived.
    pub fn is_answered(&self) -> bool {
        self.arrived().iter().any(|arrived| *arrived > 0)
    }

    /// Totals of each form over all lengths.
    fn arrived(&self) -> [u32; 3] {
        [0, 1, 2].map(|form| self.lengths.iter().map(|row| row.of()[form].arrived).sum())
    }

    /// The forms that were sent.
    fn forms(&self) -> Vec<usize> {
        let sent = |form: &usize| self.lengths.iter().any(|row| row.of()[*form].sent > 0);
        (0..NAMES.len()).filter(sent).collect()
    }

    /// Lengths of all leading fragments.
    fn leading(&self) -> Lengths {
        self.lengths.iter().fold(Lengths::default(), |sum, row| Lengths {
            known: sum.known + row.leading.known,
            kept: sum.kept + row.leading.kept,
            reassembled: sum.reassembled + row.leading.reassembled,
        })
    }

    /// A line for each range of lengths with equal results.
    pub fn text(&self) -> String {
        let watched = self.leading().known > 0;
        let line = |range: &str, cells: &dyn Fn(usize) -> String, kept: &str| {
            let cells = self.forms().into_iter().map(cells).chain(watched.then(|| kept.to_owned()));
            let cells: String = cells.map(|cell| format!("  {cell:>20}")).collect();
            format!("{range:>16}{cells}\n")
        };
        let mut text = line("IP total length", &|form| NAMES[form].to_owned(), "with their length");
        for rows in self.lengths.chunk_by(|a, b| (a.of(), a.leading) == (b.of(), b.leading)) {
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                let range = match first.length == last.length {
                    true => first.length.to_string(),
                    false => format!("{} to {}", first.length, last.length),
                };
                let percent = |share: Option<f64>| {
                    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
                };
                let kept = percent(first.leading.share());
                text += &line(&range, &|form| percent(first.of()[form].share()), &kept);
            }
        }
        text + &self.verdict() + "\n"
    }

    /// What the result means for signals on this path, as a sentence.
    pub fn verdict(&self) -> String {
        let ipv6 = self.lengths.iter().any(|row| row.atomic.sent > 0);
        let fixed = match self.arrived() {
            [0, 0, 0] => "Nothing was answered.",
            _ if !self.fragments_sent => {
                "Whole packets only: fragments need CAP_NET_RAW, run it as root to test them."
            }
            [_, 0, 0] if ipv6 => "No Fragment header survives this path: send none on it.",
            [_, _, 0] if ipv6 => "No fragment survives this path: send no Fragment header on it.",
            [_, _, 0] => "No fragment survives this path: leave Don't Fragment set on it.",
            _ => return self.verdict_of_lengths(),
        };
        fixed.to_owned()
    }

    /// The same where fragments arrive.
    fn verdict_of_lengths(&self) -> String {
        let Lengths { known, kept, reassembled } = self.leading();
        let fixed = match (known, kept) {
            (1.., 0) if reassembled == known => {
                "Packets arrive reassembled: rates do not reach receivers on this path."
            }
            (1.., _) if kept < known => {
                "Leading fragments arrive with other lengths, so rates would be wrong: leave Don't Fragment set on \
                 this path."
            }
            _ => match self.shortest_survivor() {
                Some(length) => {
                    return format!(
                        "Leading fragments below {length} bytes do not survive this path: low rates do not reach \
                         receivers."
                    );
                }
                None if known > 0 => "Fragments survive this path with their lengths.",
                None => "Fragments survive this path.",
            },
        };
        fixed.to_owned()
    }

    /// Length of the shortest leading fragment that arrived, if at least two shorter ones were sent in vain: one may be
    /// a loss.
    fn shortest_survivor(&self) -> Option<usize> {
        let mut sent = self.lengths.iter().filter(|row| row.fragmented.sent > 0);
        let lost = sent.by_ref().take_while(|row| row.fragmented.arrived == 0).count();
        let mut arrived = self.lengths.iter().filter(|row| row.fragmented.arrived > 0);
        (lost >= 2).then(|| arrived.next().map(|row| row.length)).flatten()
    }

    /// One JSON object on a line.
    ///
    /// # Errors
    /// Serialization cannot fail.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Survival by length.
    pub fn chart(&self, target: &str) -> Chart {
        let series = |form: usize| {
            let share = |row: &LengthResult| Some(Point::new(row.length as f64, row.of()[form].share()?));
            let points = self.lengths.iter().filter_map(share);
            Series::new(SERIES[form], Colour::nth(form), Shape::Line, points)
        };
        let subtitle = format!("to {target}, by IP total length of the packet or of its leading fragment");
        let x = Axis::new("length", Scale::Linear, Unit::Bytes);
        let y = Axis::new("arrived", Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
        Chart::new("Packets that survive", subtitle, x, y, self.forms().into_iter().map(series))
    }
}

#[cfg(test)]
mod tests {
    use kickass::code::Code;

    use super::*;

    fn report(fragmented: u32) -> ProbeReport {
        let survival = |arrived| Survival { sent: 3, arrived };
        let row = |code: Code| LengthResult {
            length: 20 + code.payload_len(),
            whole: survival(if code.payload_len() > 1000 { 0 } else { 3 }),
            fragmented: survival(fragmented),
            ..LengthResult::default()
        };
        ProbeReport { lengths: Code::all().map(row).collect(), fragments_sent: true }
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
        assert!(report(0).text().contains("No fragment survives this path: leave Don't Fragment"));
        let chart = report(0).chart("host");
        assert_eq!(chart.series.len(), 2);
        assert_eq!(chart.series[0].points.len(), Code::COUNT);
        let nothing = ProbeReport { lengths: Vec::new(), fragments_sent: false };
        assert!(nothing.text().contains("Nothing was answered"));
    }

    #[test]
    fn in_ipv6_the_fragment_header_has_a_column_and_a_verdict_of_its_own() {
        let report = |atomic, fragmented| {
            let mut row = LengthResult { length: 72, ..LengthResult::default() };
            for (form, arrived) in [(Form::Whole, 1), (Form::Atomic, atomic), (Form::Fragmented, fragmented)]
            {
                *row.of_mut(form) = Survival { sent: 1, arrived };
            }
            ProbeReport { lengths: vec![row], fragments_sent: true }
        };
        let text = report(1, 1).text();
        assert!(text.contains("with Fragment header") && text.contains("Fragments survive"), "{text}");
        assert!(report(0, 0).text().ends_with("send none on it.\n"));
        assert!(report(1, 0).text().contains("No fragment survives this path: send no"));
        assert_eq!(report(1, 0).chart("host").series.len(), 3);
    }
}
