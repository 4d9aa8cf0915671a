//! The two loops of one flow over time, as CSV.
//!
//! | column | what |
//! |---|---|
//! | time_s | since the beginning of the world |
//! | cwnd_bytes, in_flight_bytes | of the primary |
//! | primary_bytes | handed to the primary so far |
//! | rlp_bytes | sent by RLP so far |
//! | rlp_cursor | where RLP is: it sends each byte once, from the last one down |
//! | level | the worst level on which RLP sent since the row before; empty when it did not |

use std::{
    io::{self, Write},
    time::Duration,
};

use rc3_core::{ConnectionStats, SentStats, units::Level};

/// Writes the time line of a flow whose bytes are all written at once.
#[derive(Debug)]
pub struct Timeline<W> {
    out: W,
    /// Length of the flow.
    bytes: u64,
    /// The last row, without its time and level.
    last: String,
    sent: SentStats,
}

impl<W: Write> Timeline<W> {
    /// A time line without rows, of a flow of `bytes`.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W, bytes: u64) -> io::Result<Self> {
        writeln!(out, "time_s,cwnd_bytes,in_flight_bytes,primary_bytes,rlp_bytes,rlp_cursor,level")?;
        Ok(Self { out, bytes, last: String::new(), sent: SentStats::default() })
    }

    /// Adds a row if a counter of the sender has changed since the last one.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn sample(&mut self, at: Duration, stats: &ConnectionStats) -> io::Result<()> {
        let (cwnd, in_flight, primary) = (stats.path.cwnd, stats.in_flight, stats.sent.primary_bytes);
        let rlp: u64 = stats.sent.levels.iter().map(|level| level.bytes).sum();
        let cursor = self.bytes.saturating_sub(rlp);
        let row = format!("{cwnd},{in_flight},{primary},{rlp},{cursor}");
        if self.last == row {
            return Ok(());
        }
        let level = worst_new(&self.sent, &stats.sent).map(|level| level.to_string()).unwrap_or_default();
        let (seconds, nanos) = (at.as_secs(), at.subsec_nanos());
        writeln!(self.out, "{seconds}.{nanos:09},{row},{level}")?;
        self.last = row;
        self.sent = stats.sent;
        Ok(())
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The worst level on which more was sent than before.
fn worst_new(before: &SentStats, after: &SentStats) -> Option<Level> {
    let mut levels = after.levels.iter().zip(&before.levels);
    let number = levels.rposition(|(after, before)| after.packets > before.packets)?;
    Level::new(u8::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rc3_core::{Dir, RlpMode, units::Rate};

    use super::*;
    use crate::{LinkConfig, Pair, PairConfig};

    #[test]
    fn the_loops_of_a_transfer_meet() {
        let link = LinkConfig {
            rate: Rate::from_bits_per_second(100_000_000),
            delay: Duration::from_millis(20),
            ..LinkConfig::default()
        };
        let mut config = PairConfig::symmetric(link, 10_000_000);
        // RLP at the rate of the link; otherwise it all leaves at once.
        config.client.rlp(RlpMode::Trust).nic_rate(Rate::from_bits_per_second(100_000_000));
        config.server.rlp(RlpMode::Trust);
        let mut pair = Pair::new(config);
        let connection = pair.connect();
        pair.drive();
        let bytes = 2_000_000;
        let stream = pair.client.with(connection, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(connection, |c| c.write(stream, Bytes::from(vec![7; bytes]))).unwrap();
        pair.client.with(connection, |c| c.finish(stream)).unwrap();
        let start = pair.now;
        let mut timeline = Timeline::new(Vec::new(), bytes as u64).unwrap();
        pair.drive_until(Duration::from_secs(10), |pair| {
            let stats = pair.client.with(connection, |c| c.stats());
            timeline.sample(pair.now - start, &stats).unwrap();
            false
        });
        let text = String::from_utf8(timeline.out).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|row| row.split(',').collect()).collect();
        let number = |row: usize, column: usize| rows[row][column].parse::<u64>().unwrap();
        assert!(rows.len() > 100 && rows.iter().all(|row| row.len() == 7), "{text}");
        let levels: Vec<u8> = rows.iter().filter_map(|row| row[6].parse().ok()).collect();
        assert!(levels.is_sorted() && levels.first() == Some(&1) && levels.last() > Some(&1), "{levels:?}");
        for row in 1..rows.len() {
            assert!(rows[row][0].parse::<f64>().unwrap() >= rows[row - 1][0].parse().unwrap());
            assert!(number(row, 3) >= number(row - 1, 3) && number(row, 5) <= number(row - 1, 5));
        }
        let last = rows.len() - 1;
        assert!(number(last, 3) + number(last, 4) >= bytes as u64, "{text}");
        assert!(number(last, 5) < bytes as u64 / 2, "RLP does most of it: {text}");
    }
}
