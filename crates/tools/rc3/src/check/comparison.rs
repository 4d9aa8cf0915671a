//! The results of a plan as tables and as rows for JSON. All are derived from the outcomes of the flows.

use std::{io, net::SocketAddr, time::Duration};

use rc3_picture::{Format, chart::Colour};
use rc3_text::units::{about_bytes, about_rate};
use serde::Serialize;

use super::{
    outcome::MeasuredFlow,
    plan::{Amount, CheckPlan, FlowDirection, FlowKind},
};
use crate::{
    figures::PathFigures,
    picture::{PictureLine, chart},
    scheme::Scheme,
    table::{align, median, milliseconds, time},
    transfer::progress::count,
};

/// A measured plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The plan.
    pub plan: CheckPlan,
    /// The listener.
    pub peer: SocketAddr,
    /// The smallest round trip.
    pub rtt: Duration,
    /// The flows so far, in the order of the plan.
    pub outcomes: Vec<MeasuredFlow>,
}

/// FCTs of flows of one kind, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Times {
    /// The median.
    pub fct_ms_median: f64,
    /// The least.
    pub fct_ms_least: f64,
    /// The most.
    pub fct_ms_most: f64,
}

/// One size in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeComparison {
    /// The direction.
    pub direction: FlowDirection,
    /// The size.
    pub bytes: u64,
    /// By QUIC alone.
    pub plain: Times,
    /// By rc3.
    pub rc3: Times,
    /// Median of rc3 over median of plain QUIC.
    pub ratio: f64,
}

/// The bulk rates of one direction, in bits per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bulk {
    /// The direction.
    pub direction: FlowDirection,
    /// By QUIC alone.
    pub plain_bits_per_second: f64,
    /// By rc3.
    pub rc3_bits_per_second: f64,
    /// Rate of rc3 over rate of plain QUIC.
    pub ratio: f64,
}

impl Times {
    /// Of these FCTs; `None` without any.
    fn of(all: &[f64]) -> Option<Self> {
        let fct_ms_median = median(all)?;
        let fct_ms_least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let fct_ms_most = all.iter().copied().fold(0.0, f64::max);
        Some(Self { fct_ms_median, fct_ms_least, fct_ms_most })
    }

    fn cells(&self) -> [String; 3] {
        [self.fct_ms_median, self.fct_ms_least, self.fct_ms_most].map(time)
    }
}

impl Comparison {
    /// Before the first flow.
    pub fn new(plan: CheckPlan, peer: SocketAddr, rtt: Duration) -> Self {
        Self { plan, peer, rtt, outcomes: Vec::new() }
    }

    fn of(&self, kind: FlowKind) -> impl Iterator<Item = &MeasuredFlow> {
        self.outcomes.iter().filter(move |outcome| outcome.flow.kind == kind)
    }

    /// FCTs in milliseconds.
    fn fcts(&self, bytes: u64, direction: FlowDirection, scheme: Scheme) -> Vec<f64> {
        let kind = FlowKind { amount: Amount::Bytes(bytes), direction, scheme };
        self.of(kind).map(|outcome| milliseconds(outcome.fct)).collect()
    }

    /// FCT over size.
    ///
    /// # Errors
    /// When drawing fails, which is a bug.
    pub fn picture(&self, format: Format) -> io::Result<Vec<u8>> {
        let line = |direction: FlowDirection, scheme: Scheme| {
            let way = if self.plan.both { format!(", {}", direction.words()) } else { String::new() };
            let colour = match (direction, scheme) {
                (FlowDirection::There, Scheme::Plain) => Colour::Vermillion,
                (FlowDirection::There, Scheme::Rc3) => Colour::Blue,
                (FlowDirection::Back, Scheme::Plain) => Colour::Orange,
                (FlowDirection::Back, Scheme::Rc3) => Colour::Sky,
            };
            let sizes = self.plan.sizes.iter();
            let sizes = sizes.map(|&bytes| (bytes, self.fcts(bytes, direction, scheme))).collect();
            PictureLine { name: format!("{}{way}", scheme.name()), colour, sizes }
        };
        let directions = self.plan.directions().iter();
        let lines = directions.flat_map(|&direction| Scheme::BOTH.map(|scheme| line(direction, scheme)));
        let runs = count(self.plan.runs as usize, "run");
        let rtt = time(milliseconds(self.rtt));
        let title = format!("plain QUIC and rc3, {}", self.peer);
        format.draw(&chart(title, format!("round trip {rtt}, median of {runs}"), lines.collect(), &[]))
    }

    /// A row for each direction and size.
    pub fn rows(&self) -> Vec<SizeComparison> {
        let row = |direction, bytes| {
            let times = |scheme| Times::of(&self.fcts(bytes, direction, scheme));
            let (plain, rc3) = (times(Scheme::Plain)?, times(Scheme::Rc3)?);
            let ratio = rc3.fct_ms_median / plain.fct_ms_median;
            Some(SizeComparison { direction, bytes, plain, rc3, ratio })
        };
        let sizes = |direction| self.plan.sizes.iter().filter_map(move |&bytes| row(direction, bytes));
        self.plan.directions().iter().flat_map(|&direction| sizes(direction)).collect()
    }

    /// The bulk rates of each direction.
    pub fn bulk(&self) -> Vec<Bulk> {
        let bulk = |&direction: &FlowDirection| {
            let rate = |scheme| {
                let kind = FlowKind { amount: Amount::Seconds(self.plan.seconds), direction, scheme };
                self.of(kind).find_map(MeasuredFlow::rate)
            };
            let (plain, rc3) = (rate(Scheme::Plain)?, rate(Scheme::Rc3)?);
            let (plain_bits_per_second, rc3_bits_per_second) = (plain, rc3);
            Some(Bulk { direction, plain_bits_per_second, rc3_bits_per_second, ratio: rc3 / plain })
        };
        self.plan.directions().iter().filter_map(bulk).collect()
    }

    /// What the sender of the last rc3 flow in this direction measured: that of the bulk flow, if there is one.
    pub fn path(&self, direction: FlowDirection) -> Option<&PathFigures> {
        let is_rc3 = |outcome: &&MeasuredFlow| {
            let FlowKind { direction: to, scheme, .. } = outcome.flow.kind;
            (to, scheme) == (direction, Scheme::Rc3)
        };
        self.outcomes.iter().rev().find(is_rc3).map(|outcome| &outcome.path)
    }

    /// The results as text.
    pub fn text(&self) -> String {
        let head = format!(
            "{}, round trip {}\n\
             plain QUIC and rc3 in turn, each flow on a new connection; {}\n\
             FCT from connect to the last byte at the receiver, median (least, most) of {}\n\
             FCT to the listener: until its reply to the last byte, less half of the smallest round trip\n",
            self.peer,
            time(milliseconds(self.rtt)),
            self.plan.memory_text(),
            count(self.plan.runs as usize, "run"),
        );
        let parts = self.plan.directions().iter().map(|&direction| self.direction_table(direction));
        head + &parts.collect::<String>()
    }

    fn direction_table(&self, direction: FlowDirection) -> String {
        let header = ["size", "plain", "least", "most", "rc3", "least", "most", "rc3/plain"];
        let mut lines = vec![header.map(str::to_owned).to_vec()];
        for row in self.rows().iter().filter(|row| row.direction == direction) {
            let mut line = vec![about_bytes(row.bytes)];
            line.extend(row.plain.cells().into_iter().chain(row.rc3.cells()));
            line.push(format!("{:.2}", row.ratio));
            lines.push(line);
        }
        let bulk = self.bulk().into_iter().find(|bulk| bulk.direction == direction);
        let bulk = bulk.map_or_else(String::new, |bulk| bulk.text(self.plan.seconds));
        let path = self.path(direction).map_or_else(String::new, |path| path.text("  "));
        format!("\n{}\n{}{bulk}rc3's sender measured:\n{path}", direction.words(), align(&lines))
    }
}

impl Bulk {
    fn text(&self, seconds: u32) -> String {
        format!(
            "bulk rate over {seconds} s: plain QUIC {}, rc3 {}, rc3/plain {:.2}\n",
            about_rate(self.plain_bits_per_second),
            about_rate(self.rc3_bits_per_second),
            self.ratio,
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::{
            message::ReceiverCount,
            outcome::without_reply,
            plan::{PlannedFlow, tests::plan},
        },
        *,
    };

    /// A flow with this FCT in milliseconds; a bulk flow carries a megabyte in a second.
    pub(in crate::check) fn outcome(flow: PlannedFlow, fct: u64) -> MeasuredFlow {
        let path = PathFigures {
            rate_bits_per_second: Some(8_000_000),
            path_limited: true,
            remembered: false,
            rtt_ms: 40.0,
            queue_ms: 0.0,
            verdict: None,
            levels: Vec::new(),
            primary_bytes: fct,
            rlp_bytes: 0,
            rlp_delivered_bytes: 0,
            reopened_bytes: 0,
            primary_lost_packets: 0,
        };
        let took = Duration::from_millis(fct);
        let arrived = ReceiverCount { bytes: 1_000_000, seconds: 1.0 };
        MeasuredFlow { flow, fct: took, arrived, path, rtt: Duration::from_millis(40), took }
    }

    /// Plain QUIC takes 200 ms and 220 ms, rc3 half of it.
    pub(in crate::check) fn comparison() -> Comparison {
        let fct = |flow: PlannedFlow| match flow.kind.scheme {
            Scheme::Plain => 180 + 20 * u64::from(flow.run),
            Scheme::Rc3 => 90 + 10 * u64::from(flow.run),
        };
        let outcomes = plan().flows().map(|flow| outcome(flow, fct(flow))).collect();
        let mut comparison =
            Comparison::new(plan(), "192.0.2.1:4433".parse().unwrap(), Duration::from_millis(40));
        comparison.outcomes = outcomes;
        comparison
    }

    #[test]
    fn rows_have_medians_and_extremes_of_their_kind() {
        let rows = comparison().rows();
        let kinds: Vec<_> = rows.iter().map(|row| (row.direction, row.bytes)).collect();
        let there_and_back = [FlowDirection::There, FlowDirection::Back];
        assert_eq!(kinds, there_and_back.map(|way| [(way, 10_000), (way, 1_000_000)]).concat());
        let plain = Times { fct_ms_median: 210.0, fct_ms_least: 200.0, fct_ms_most: 220.0 };
        assert!(rows.iter().all(|row| row.plain == plain && row.ratio == 0.5), "{rows:?}");
        assert_eq!(Times::of(&[3.0, 1.0, 2.0]).unwrap().fct_ms_median, 2.0);
        assert_eq!(Times::of(&[]), None);
    }

    #[test]
    fn the_picture_names_every_direction_and_scheme() {
        let svg = String::from_utf8(comparison().picture(Format::Svg).unwrap()).unwrap();
        for words in ["plain, to the listener", "rc3, from the listener", "192.0.2.1:4433"] {
            assert!(svg.contains(words), "{words}");
        }
        // Two sizes, two directions, two schemes, two runs, and the medians.
        assert_eq!(svg.matches("<circle").count(), 16 + 8);
        assert!(comparison().picture(Format::Png).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn bulk_rates_are_those_of_the_receiver() {
        let bulk = comparison().bulk();
        assert_eq!(bulk.len(), 2);
        assert_eq!((bulk[0].rc3_bits_per_second, bulk[0].ratio), (8e6, 1.0));
        let mut without = comparison();
        without.plan.seconds = 0;
        without.outcomes.truncate(16);
        assert!(without.bulk().is_empty() && !without.text().contains("bulk"));
    }

    #[test]
    fn the_path_is_that_of_the_last_flow_by_rc3() {
        let comparison = comparison();
        // The bulk flow is the only run that takes 100 ms after the second run.
        assert_eq!(comparison.path(FlowDirection::Back).map(|path| path.primary_bytes), Some(100));
        assert_eq!(Comparison { outcomes: Vec::new(), ..comparison }.path(FlowDirection::Back), None);
    }

    #[test]
    fn text_has_a_table_for_each_direction_and_says_how_it_was_measured() {
        let text = comparison().text();
        for words in [
            "less half of the smallest round trip",
            "of 2 runs",
            "to the listener\n",
            "from the listener\n",
            "0.50",
            "8 Mbit/s",
        ] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
    }

    #[test]
    fn a_reply_costs_half_a_round_trip() {
        let of = |until, rtt| without_reply(Duration::from_millis(until), Duration::from_millis(rtt));
        assert_eq!(of(100, 40), Duration::from_millis(80));
        assert_eq!(of(10, 40), Duration::ZERO);
    }
}
