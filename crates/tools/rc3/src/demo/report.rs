//! The results as a table, as a picture, and as one JSON object.
//!
//! Byte counts are the receiver's: bytes that the primary brought first, bytes that each RLP level brought first, and
//! duplicates. They are those of the run with the median FCT, so that they belong together. With an even number of
//! runs, the median is the mean of the two middle runs, and the counts are those of the slower one.

use std::time::Duration;

use rc3_picture::chart::{Chart, Colour};
use rc3_text::units::about_bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    bars::{self, Look},
    links::Links,
    scenario::DemoScenario,
};
use crate::{
    picture::{PictureLine, chart},
    scheme::Scheme,
    table::{align, median, milliseconds, time},
};

/// Results of one transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferSample {
    /// From `connect()` to the last byte at the receiver.
    pub fct: Duration,
    /// Bytes the primary brought first.
    pub primary_bytes: u64,
    /// Bytes RLP brought first, level 1 first.
    pub rlp_bytes: Vec<u64>,
    /// Bytes that came more than once.
    pub duplicate_bytes: u64,
}

/// All transfers of one size by one scheme.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferMedian {
    /// Bytes of content.
    pub bytes: u64,
    /// The scheme.
    pub scheme: Scheme,
    /// Median FCT in milliseconds.
    pub fct_ms_median: f64,
    /// Every FCT in milliseconds, in the order of the runs.
    pub fct_ms_all: Vec<f64>,
    /// See [`DemoScenario::ideal`].
    pub ideal_ms: f64,
    /// Of the median run.
    pub primary_bytes: u64,
    /// Of the median run, level 1 first; as many entries as the ladder has levels.
    pub rlp_bytes: Vec<u64>,
    /// Of the median run.
    pub duplicate_bytes: u64,
}

impl TransferMedian {
    /// Summarizes the runs of one size and scheme; `None` without runs.
    pub fn new(
        scenario: &DemoScenario,
        bytes: u64,
        scheme: Scheme,
        samples: &[TransferSample],
    ) -> Option<Self> {
        let mut order: Vec<&TransferSample> = samples.iter().collect();
        order.sort_by_key(|sample| sample.fct);
        let middle = *order.get(order.len() / 2)?;
        let fct_ms_all: Vec<f64> = samples.iter().map(|sample| milliseconds(sample.fct)).collect();
        Some(Self {
            bytes,
            scheme,
            fct_ms_median: median(&fct_ms_all)?,
            fct_ms_all,
            ideal_ms: milliseconds(scenario.ideal(bytes)),
            primary_bytes: middle.primary_bytes,
            rlp_bytes: middle.rlp_bytes.clone(),
            duplicate_bytes: middle.duplicate_bytes,
        })
    }

    /// Median FCT over ideal.
    pub fn over_ideal(&self) -> f64 {
        self.fct_ms_median / self.ideal_ms
    }
}

/// One size by both schemes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeResult {
    /// By QUIC alone.
    pub plain: TransferMedian,
    /// By rc3.
    pub rc3: TransferMedian,
}

impl SizeResult {
    /// How much faster rc3 is, in per cent; negative when it is slower.
    pub fn reduction(&self) -> f64 {
        100.0 * (1.0 - self.rc3.fct_ms_median / self.plain.fct_ms_median)
    }
}

/// Results of a whole demonstration.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoReport {
    /// The scenario.
    pub scenario: DemoScenario,
    /// Runs per size and scheme.
    pub runs: u32,
    /// Rows in the order of the sizes.
    pub rows: Vec<SizeResult>,
}

impl DemoReport {
    fn as_json(&self) -> Value {
        let Self { scenario, runs, rows } = self;
        let link = &scenario.emulated;
        json!({
            "rate_bits_per_second": link.rate.bits_per_second(),
            "rtt_ms": milliseconds(link.rtt),
            "buffer_bytes": link.buffer,
            "nic_bits_per_second": scenario.nic.bits_per_second(),
            "loss": link.loss,
            "load": link.load,
            "queue": link.queue,
            "forget": scenario.forget,
            "levels": scenario.ladder.levels(),
            "runs": runs,
            "seed": link.seed,
            "results": rows.iter().flat_map(|row| [&row.plain, &row.rc3]).collect::<Vec<_>>(),
        })
    }

    /// Everything as text, with bars for such a terminal.
    pub fn text(&self, look: Look) -> String {
        let runs = self.runs_text();
        format!(
            "\n{}\nplain QUIC and rc3, FCT from connect to the last byte, {runs}, every transfer verified\n{}\n{}\n\n{}\n{}",
            self.scenario.headline(),
            self.scenario.memory_text(),
            self.scenario.ideal_text(),
            self.table(),
            bars::picture(self, look),
        )
    }

    fn runs_text(&self) -> String {
        match self.runs {
            1 => "one run".to_owned(),
            runs => format!("median of {runs} runs"),
        }
    }

    fn chart(&self) -> Chart {
        let line = |name: &str, colour, of: fn(&SizeResult) -> &TransferMedian| {
            let sizes = self.rows.iter().map(|row| (of(row).bytes, of(row).fct_ms_all.clone())).collect();
            PictureLine { name: name.to_owned(), colour, sizes }
        };
        let lines = vec![
            line("plain QUIC", Colour::Vermillion, |row| &row.plain),
            line("rc3", Colour::Blue, |row| &row.rc3),
        ];
        let ideal: Vec<_> = self.rows.iter().map(|row| (row.rc3.bytes, row.rc3.ideal_ms)).collect();
        let subtitle = format!("{}, {}", self.scenario.conditions_text(), self.runs_text());
        chart(self.scenario.link_text(), subtitle, lines, &ideal)
    }

    /// The table, ready to print. Times are medians.
    pub fn table(&self) -> String {
        let levels = self.levels_used();
        let mut header: Vec<String> =
            ["size", "plain", "rc3", "ideal", "faster by", "rc3/ideal", "primary"].map(str::to_owned).into();
        header.extend((1..=levels).map(|level| format!("RLP {level}")));
        header.push("twice".to_owned());
        let mut lines = vec![header];
        for row in &self.rows {
            let SizeResult { plain, rc3 } = row;
            let mut line = vec![
                about_bytes(rc3.bytes),
                time(plain.fct_ms_median),
                time(rc3.fct_ms_median),
                time(rc3.ideal_ms),
                format!("{:.1} %", row.reduction()),
                format!("{:.2}", rc3.over_ideal()),
                about_bytes(rc3.primary_bytes),
            ];
            line.extend((0..levels).map(|at| about_bytes(rc3.rlp_bytes.get(at).copied().unwrap_or(0))));
            line.push(about_bytes(rc3.duplicate_bytes));
            lines.push(line);
        }
        align(&lines)
    }

    /// The worst level that brought bytes.
    fn levels_used(&self) -> usize {
        let used =
            |row: &SizeResult| row.rc3.rlp_bytes.iter().rposition(|&bytes| bytes > 0).map_or(0, |at| at + 1);
        self.rows.iter().map(used).max().unwrap_or(0)
    }
}

impl Links<DemoReport> {
    /// One JSON object: the settings and an array `results`; the same for the faster card in `fast_card`.
    pub fn json(&self) -> String {
        let Self { link, fast_card } = self;
        let fast_card = fast_card.as_ref().map(DemoReport::as_json);
        // It has only numbers and names.
        serde_json::to_string(&Links { link: link.as_json(), fast_card }).unwrap_or_default()
    }

    /// FCT over size as a picture, a panel for each link.
    pub fn svg(&self) -> String {
        rc3_picture::svg_row(&self.iter().map(DemoReport::chart).collect::<Vec<_>>())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rc3_core::{Ladder, units::Rate};

    use super::*;
    use crate::{demo::scenario::Runs, emulator::EmulatorConfig};

    pub(in crate::demo) fn scenario() -> DemoScenario {
        let rate = Rate::from_bits_per_second(200_000_000).unwrap();
        DemoScenario {
            emulated: EmulatorConfig::new(rate, Duration::from_millis(80)),
            nic: rate,
            rlp: rc3_net::RlpMode::default(),
            forget: false,
            ladder: Ladder::geometric(40, 10, 3),
            sizes: vec![1_000_000],
            runs: Runs::Exactly(3),
        }
    }

    fn sample(fct: u64, rlp: u64) -> TransferSample {
        TransferSample {
            fct: Duration::from_millis(fct),
            primary_bytes: 1_000_000 - rlp,
            rlp_bytes: vec![rlp, 0, 0],
            duplicate_bytes: fct,
        }
    }

    pub(in crate::demo) fn report() -> DemoReport {
        let scenario = scenario();
        let measured = |scheme, samples: &[TransferSample]| {
            TransferMedian::new(&scenario, 1_000_000, scheme, samples).unwrap()
        };
        let plain = measured(Scheme::Plain, &[sample(400, 0), sample(420, 0), sample(410, 0)]);
        let rc3 = measured(Scheme::Rc3, &[sample(168, 900_000), sample(170, 800_000), sample(164, 7)]);
        DemoReport { rows: vec![SizeResult { plain, rc3 }], runs: 3, scenario }
    }

    #[test]
    fn counts_are_those_of_the_median_run() {
        let report = report();
        let rc3 = &report.rows[0].rc3;
        assert_eq!((rc3.fct_ms_median, rc3.duplicate_bytes), (168.0, 168));
        assert_eq!(rc3.rlp_bytes, [900_000, 0, 0]);
        assert_eq!(rc3.fct_ms_all, [168.0, 170.0, 164.0]);
        let even = [sample(1, 1), sample(3, 3)];
        let even = TransferMedian::new(&report.scenario, 1_000_000, Scheme::Rc3, &even).unwrap();
        assert_eq!((even.fct_ms_median, even.duplicate_bytes), (2.0, 3));
        assert_eq!(TransferMedian::new(&report.scenario, 1, Scheme::Rc3, &[]), None);
    }

    #[test]
    fn json_has_the_promised_fields_and_no_other() {
        let both = Links { link: report(), fast_card: Some(report()) };
        let json: serde_json::Value = serde_json::from_str(&both.json()).unwrap();
        let alone: serde_json::Value =
            serde_json::from_str(&Links { link: report(), fast_card: None }.json()).unwrap();
        assert_eq!((alone.get("fast_card"), &alone), (None, &json["fast_card"]));
        assert_eq!((&json["queue"], &json["runs"]), (&"prio".into(), &3.into()));
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!((&results[0]["scheme"], &results[1]["scheme"]), (&"plain".into(), &"rc3".into()));
        let mut fields: Vec<_> = results[1].as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        let promised = [
            "bytes",
            "duplicate_bytes",
            "fct_ms_all",
            "fct_ms_median",
            "ideal_ms",
            "primary_bytes",
            "rlp_bytes",
            "scheme",
        ];
        assert_eq!(fields, promised);
        assert_eq!(results[1]["ideal_ms"], 160.0);
    }

    #[test]
    fn table_lines_up_and_shows_levels_that_were_used() {
        let table = report().table();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("RLP 1") && !lines[0].contains("RLP 2"), "{table}");
        assert_eq!(lines[0].len(), lines[1].len(), "{table}");
        assert!(lines[1].contains("59.0 %") && lines[1].contains("1.05"), "{table}");
    }

    #[test]
    fn the_picture_names_its_lines_and_its_link() {
        let svg = Links { link: report(), fast_card: None }.svg();
        for word in ["plain QUIC", "rc3", "ideal", "200mbit x 80ms", "1 MB"] {
            assert!(svg.contains(word), "{word} is missing");
        }
        // A dot for each of six runs and each of two medians.
        assert_eq!(svg.matches("<circle").count(), 8);
        let both = Links { link: report(), fast_card: Some(report()) }.svg();
        assert_eq!(both.matches("<circle").count(), 16);
    }
}
