//! Results of links: `links.csv`, and the table of the report.

use std::io::Write;

use rc3_core::units::Level;
use rc3_sim::{
    scenario::{Label, Run},
    simulation::LinkReport,
};
use rc3_text::units::about_bytes;
use serde::{Deserialize, Serialize};

use crate::document::Table;

/// One link of a world. Whole numbers only, so that stored ones read back the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Its name, `core:0-1`.
    pub link: String,
    /// Its rate in bits per second; `None` is infinitely fast.
    pub rate: Option<u64>,
    /// Part of its rate in use during the measured interval (see [`LinkReport::utilisation`]), in millionths.
    pub utilisation: Option<u64>,
    /// Packets delivered.
    pub packets: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Packets that its queue dropped, by level, without zeros at the end.
    pub dropped: Vec<u64>,
    /// Packets lost behind its queue.
    pub lost: u64,
    /// Longest queue, bytes.
    pub queue_bytes_max: u64,
    /// Longest wait in the queue, nanoseconds.
    pub wait_max: u64,
}

impl From<LinkReport> for LinkRow {
    fn from(report: LinkReport) -> Self {
        let LinkReport { site, rate, utilisation, stats } = report;
        let total = stats.total();
        let levels = (0..Level::COUNT as u8).filter_map(Level::new);
        let mut dropped: Vec<u64> = levels.map(|level| stats.level(level).dropped.packets).collect();
        let used = dropped.iter().rposition(|packets| *packets > 0).map_or(0, |last| last + 1);
        dropped.truncate(used);
        Self {
            link: site.to_string(),
            rate: rate.map(|rate| rate.bits_per_second()),
            utilisation: utilisation.map(|share| (share * 1e6).round() as u64),
            packets: total.delivered.packets,
            bytes: total.delivered.bytes,
            dropped,
            lost: total.lost.packets,
            queue_bytes_max: stats.queue_bytes_max,
            wait_max: u64::try_from(total.queueing_delay_max.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl LinkRow {
    fn dropped_primary(&self) -> u64 {
        self.dropped.first().copied().unwrap_or_default()
    }

    fn dropped_rlp(&self) -> u64 {
        self.dropped.iter().skip(1).sum()
    }
}

/// Writes `links.csv`, and keeps what the report shows.
#[derive(Debug)]
pub struct LinkTable<W: Write> {
    out: csv::Writer<W>,
    places: Vec<(Label, PlaceLinks)>,
}

/// The links of all repetitions at one place of an experiment.
#[derive(Debug, Default)]
struct PlaceLinks {
    busiest: LinkRow,
    longest: LinkRow,
    dropped_primary: u64,
    dropped_rlp: u64,
    lost: u64,
}

impl<W: Write> LinkTable<W> {
    /// Writes the header.
    pub fn new(out: W) -> csv::Result<Self> {
        let mut out = csv::Writer::from_writer(out);
        let fixed =
            ["setting", "run", "repetition", "link", "rate_bps", "utilisation", "packets", "bytes", "lost"];
        let dropped = (0..Level::COUNT).map(|level| format!("dropped_{level}"));
        let rest = ["queue_bytes_max", "queueing_delay_max_s"];
        let names = fixed.map(str::to_owned).into_iter().chain(dropped).chain(rest.map(str::to_owned));
        out.write_record(names)?;
        Ok(Self { out, places: Vec::new() })
    }

    /// Adds the links of a world.
    pub fn add(&mut self, run: &Run, rows: &[LinkRow]) -> csv::Result<()> {
        let place = run.label.pooled();
        for row in rows {
            self.write(&place, run.label.repetition, row)?;
        }
        let index = self.places.iter().position(|(known, _)| *known == place).unwrap_or_else(|| {
            self.places.push((place, PlaceLinks::default()));
            self.places.len() - 1
        });
        let shown = &mut self.places[index].1;
        rows.iter().for_each(|row| shown.add(row));
        Ok(())
    }

    fn write(&mut self, place: &Label, repetition: u32, row: &LinkRow) -> csv::Result<()> {
        let utilisation = row.utilisation.map(|millionths| decimal(millionths, 6));
        let mut dropped = row.dropped.clone();
        dropped.resize(Level::COUNT, 0);
        self.out.serialize((
            (place.setting(), &place.run, repetition, &row.link),
            (row.rate, utilisation, row.packets, row.bytes, row.lost, dropped),
            (row.queue_bytes_max, decimal(row.wait_max, 9)),
        ))
    }

    /// Ends the file; returns the table of the report.
    pub fn finish(mut self) -> csv::Result<Table> {
        self.out.flush()?;
        let mut table = Table::default();
        for (place, shown) in &self.places {
            let utilisation = shown.busiest.utilisation.map(|share| format!("{:.1} %", share as f64 / 1e4));
            table.push([
                ("setting", place.setting()),
                ("run", place.run.clone()),
                ("busiest core link", shown.busiest.link.clone()),
                ("#utilisation", utilisation.unwrap_or_default()),
                ("#dropped, primary", shown.dropped_primary.to_string()),
                ("#dropped, RLP", shown.dropped_rlp.to_string()),
                ("#lost", shown.lost.to_string()),
                ("#longest queue", about_bytes(shown.longest.queue_bytes_max)),
                ("at", shown.longest.link.clone()),
            ]);
        }
        Ok(table.without_empty_columns())
    }
}

impl PlaceLinks {
    fn add(&mut self, row: &LinkRow) {
        // Flows share core links; an access link is busy as soon as its host sends.
        if row.link.starts_with("core:") && row.utilisation >= self.busiest.utilisation {
            self.busiest = row.clone();
        }
        if row.queue_bytes_max > self.longest.queue_bytes_max {
            self.longest = row.clone();
        }
        self.dropped_primary += row.dropped_primary();
        self.dropped_rlp += row.dropped_rlp();
        self.lost += row.lost;
    }
}

/// A number of units of the last decimal.
fn decimal(units: u64, decimals: usize) -> String {
    let scale = 10_u64.pow(u32::try_from(decimals).unwrap_or(0));
    format!("{}.{:0decimals$}", units / scale, units % scale)
}
