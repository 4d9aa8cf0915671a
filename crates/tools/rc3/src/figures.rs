//! What a sender measured of its path and sent there, as text and as JSON.

use std::fmt::Write as _;

use rc3_core::units::Level;
use rc3_net::{ConnectionStats, Verdict, marks::Marks};
use rc3_text::units::{about_bytes, about_rate};
use serde::{Deserialize, Serialize};

use crate::table::milliseconds;

/// The code points that have names (RFC 2474, 2597, 3246, 5865, 8622).
pub fn dscp_name(dscp: u8) -> String {
    match (dscp >> 3, dscp & 7) {
        (0, 1) => "LE".to_owned(),
        (5, 4) => "VA".to_owned(),
        (5, 6) => "EF".to_owned(),
        (class, 0) => format!("CS{class}"),
        (class @ 1..=4, drop @ (2 | 4 | 6)) => format!("AF{class}{}", drop / 2),
        _ => dscp.to_string(),
    }
}

/// Whether a path honours priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Honour {
    /// The primary overtakes RLP.
    Honoured,
    /// It does not.
    Ignored,
    /// There was too little queue to decide.
    Unproven,
}

impl From<Verdict> for Honour {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Honoured => Self::Honoured,
            Verdict::Ignored => Self::Ignored,
            _ => Self::Unproven,
        }
    }
}

/// One level in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelFigures {
    /// 0 is the primary.
    pub level: u8,
    /// Code point of its packets.
    pub dscp: u8,
    /// Socket priority on this host; `None`: the kernel's choice.
    pub priority: Option<u32>,
    /// Packets sent.
    pub packets: u64,
}

/// The path and the traffic on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// Delivery rate of UDP payload; `None` if unknown.
    pub rate_bits_per_second: Option<u64>,
    /// Whether the path limits that rate; otherwise the path carries at least as much.
    pub path_limited: bool,
    /// Whether RLP began with the rate of an earlier connection.
    pub remembered: bool,
    /// Smoothed round trip.
    pub rtt_ms: f64,
    /// Recent minimum of the queueing delay.
    pub queue_ms: f64,
    /// Whether the path honours priorities; `None` without the guard.
    pub verdict: Option<Honour>,
    /// Levels in use, and their marks.
    pub levels: Vec<LevelFigures>,
    /// Stream bytes given to the primary.
    pub primary_bytes: u64,
    /// Stream bytes sent by RLP.
    pub rlp_bytes: u64,
    /// RLP bytes that the peer acknowledged.
    pub rlp_delivered_bytes: u64,
    /// RLP bytes that were lost and may be sent by RLP again.
    pub reopened_bytes: u64,
    /// Lost packets of the primary.
    pub primary_lost_packets: u64,
}

impl PathFigures {
    /// The figures of a connection with these marks.
    pub fn of(stats: &ConnectionStats, marks: &Marks) -> Self {
        let clock = stats.clock.unwrap_or_default();
        let packets = |level: Level| match level {
            Level::PRIMARY => stats.path.sent_packets,
            level => stats.sent.levels[level.index()].packets,
        };
        let levels =
            (0..).map_while(Level::new).filter(|&level| packets(level) > 0).map(|level| LevelFigures {
                level: level.get(),
                dscp: marks.dscp(level),
                priority: marks.priority(level),
                packets: packets(level),
            });
        Self {
            rate_bits_per_second: clock.rate.map(|rate| rate.bits_per_second()),
            path_limited: clock.path_limited,
            remembered: clock.remembered,
            rtt_ms: milliseconds(stats.path.rtt),
            queue_ms: milliseconds(clock.queue),
            verdict: stats.guard.map(|guard| guard.verdict.into()),
            levels: levels.collect(),
            primary_bytes: stats.sent.primary_bytes,
            rlp_bytes: stats.sent.levels.iter().map(|level| level.bytes).sum(),
            rlp_delivered_bytes: stats.sent.levels.iter().map(|level| level.delivered_bytes).sum(),
            reopened_bytes: stats.sent.reopened_bytes,
            primary_lost_packets: stats.path.lost_packets,
        }
    }

    /// The rate as text.
    pub fn rate_text(&self) -> String {
        let Some(rate) = self.rate_bits_per_second else { return "unknown rate".to_owned() };
        let bound = if self.path_limited { "the path's rate" } else { "at least" };
        let remembered = if self.remembered { ", remembered" } else { "" };
        format!("{} ({bound}{remembered})", about_rate(rate as f64))
    }

    /// The verdict as text.
    pub fn verdict_text(&self) -> &'static str {
        match self.verdict {
            Some(Honour::Honoured) => "priorities are honoured",
            Some(Honour::Ignored) => "priorities are ignored, RLP limits itself by its delivery clock",
            Some(Honour::Unproven) => "unknown whether priorities are honoured: too little queue",
            None => "unknown whether priorities are honoured: not measured",
        }
    }

    /// One line of text.
    pub fn brief(&self) -> String {
        let again = match self.reopened_bytes {
            0 => String::new(),
            bytes => format!(", {} of RLP lost and to be sent again", about_bytes(bytes)),
        };
        format!(
            "path: {}, round trip {:.1} ms, {}{again}",
            self.rate_text(),
            self.rtt_ms,
            self.verdict_text()
        )
    }

    /// Lines of text, each after `indent`.
    pub fn text(&self, indent: &str) -> String {
        let mut text = format!(
            "{indent}{}, round trip {:.1} ms, {:.1} ms of queue\n{indent}{}\n",
            self.rate_text(),
            self.rtt_ms,
            self.queue_ms,
            self.verdict_text(),
        );
        let _ = writeln!(
            text,
            "{indent}{} by the primary, {} sent by RLP, {} of them arrived, {} were lost and to be sent again; \
             {} packets of the primary were lost",
            about_bytes(self.primary_bytes),
            about_bytes(self.rlp_bytes),
            about_bytes(self.rlp_delivered_bytes),
            about_bytes(self.reopened_bytes),
            self.primary_lost_packets,
        );
        let marks: Vec<String> = self.levels.iter().map(LevelFigures::text).collect();
        let _ = writeln!(text, "{indent}marks: {}", marks.join("; "));
        text
    }
}

impl LevelFigures {
    fn text(&self) -> String {
        let priority = self.priority.map_or_else(String::new, |priority| format!(", SO_PRIORITY {priority}"));
        format!("level {} DSCP {} ({}){priority}", self.level, self.dscp, dscp_name(self.dscp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_their_names() {
        let names = [0, 1, 3, 8, 10, 16, 18, 34, 38, 44, 46, 56].map(dscp_name);
        let expected = ["CS0", "LE", "3", "CS1", "AF11", "CS2", "AF21", "AF41", "AF43", "VA", "EF", "CS7"];
        assert_eq!(names, expected);
    }
}
