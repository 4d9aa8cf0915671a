//! From measured flows to charts: one function for each kind of picture of the papers.

mod over_time;

use std::time::Duration;

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};
use rc3_sim::{
    model::{self, Model},
    scenario::{Label, PictureKind, PictureSpec, Spec, short_key},
    summary::{Bucket, Weight},
    workload::PACKET_ON_THE_WIRE,
};
use rc3_text::units::{
    about_bytes, about_rate, about_time, parse_rate, parse_size, parse_time, three_digits,
};
use toml::Value;

use super::{
    engine::SentPacket,
    results::{Cell, PACKET_BYTES, Results},
    table,
};
use crate::statistics::Sample;

/// What a picture needs to know of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// Rate of the bottleneck of a single flow, bytes per second.
    pub rate: f64,
    /// Round-trip time.
    pub rtt: Duration,
    /// Share of it others use, 0 to 1.
    pub load: f64,
}

impl Network {
    fn model(&self, initial_window: u64) -> Model {
        Model {
            available: self.rate * (1.0 - self.load),
            rtt: self.rtt.as_secs_f64(),
            initial_window: (initial_window * PACKET_BYTES) as f64,
        }
    }
}

/// The chart of a picture; `None` if nothing was measured that it could show.
pub fn chart(picture: &PictureSpec, spec: &Spec, results: &Results, network: Network) -> Option<Chart> {
    let mut chart = match picture.kind {
        PictureKind::ReductionBySize => reduction_by_size(picture, results, network),
        PictureKind::FctByKey => fct_by_key(picture, results),
        PictureKind::FctDistribution => distribution(picture, results),
        PictureKind::ThroughputBySize => throughput_by_size(picture, results),
        PictureKind::TimeLine => time_line(picture, results, network),
        PictureKind::PacketsByRound => packets_by_round(picture, results, network),
        PictureKind::Model => modelled(picture, results, network),
        PictureKind::FctBySize => fct_by_size(picture, results),
        PictureKind::RateOverTime
        | PictureKind::UtilisationOverTime
        | PictureKind::QueueOverTime
        | PictureKind::ModeOverTime => over_time::chart(picture, spec, results),
        PictureKind::QueueingDistribution => over_time::distribution(picture, results),
    };
    chart.title = picture.title.clone().unwrap_or_else(|| spec.title.clone());
    let shows = chart.series.iter().any(|series| !series.points.is_empty());
    shows.then_some(chart)
}

/// The places a picture shows.
fn shown<'a>(picture: &'a PictureSpec, results: &'a Results) -> impl Iterator<Item = &'a Cell> {
    let wanted = |run: &String| picture.runs.as_ref().is_none_or(|runs| runs.contains(run));
    results.cells.iter().filter(move |cell| wanted(&cell.place.run))
}

/// What a place is called beside the others: only what distinguishes them.
fn name(cell: &Cell, cells: &[&Cell]) -> String {
    let several_runs = cells.iter().any(|other| other.place.run != cell.place.run);
    let setting = cell.place.setting();
    match (setting.is_empty(), several_runs) {
        (true, _) => cell.place.run.clone(),
        (false, true) => format!("{}, {setting}", cell.place.run),
        (false, false) => setting,
    }
}

/// Where there is one setting, the plain scheme has its colour and the last run, which is rc3, has the other.
fn colour(cell: &Cell, index: usize, results: &Results) -> Colour {
    let is_first = results.base(&cell.place).is_some_and(|base| base.place == cell.place);
    let last = results.cells.iter().rfind(|other| other.place.is_of_setting(&cell.place));
    let several = results.cells.iter().any(|other| !other.place.is_of_setting(&cell.place));
    match (several, is_first) {
        (true, _) => Colour::nth(index),
        (false, true) => Colour::Vermillion,
        (false, false) if last.is_some_and(|last| last.place == cell.place) => Colour::Blue,
        (false, false) => Colour::nth(index + 2),
    }
}

fn size_names(buckets: &[Bucket]) -> Scale {
    let name = |bucket: &Bucket| match bucket.from == bucket.to {
        true => about_bytes(bucket.from),
        false => format!("{} +", about_bytes(bucket.from)),
    };
    Scale::Names(buckets.iter().map(name).collect())
}

/// Figs. 7, 8, 9, 12, 14: reduction of the mean FCT relative to the base, by flow size.
fn reduction_by_size(picture: &PictureSpec, results: &Results, network: Network) -> Chart {
    let buckets = table::buckets(results);
    let base = |cell: &Cell| results.base(&cell.place);
    let compared: Vec<&Cell> = shown(picture, results)
        .filter(|cell| base(cell).is_some_and(|base| base.place != cell.place))
        .collect();
    let mut series: Vec<Series> = Vec::new();
    for (index, cell) in compared.iter().enumerate() {
        let Some(base) = base(cell) else { continue };
        // Where flows are of two schemes, the second is what the run is about.
        let flows = |cell: &Cell| cell.parts.last().map_or(&cell.all, |part| &part.group).flows.clone();
        let (base, flows) = (flows(base), flows(cell));
        let point = |(index, bucket): (usize, &Bucket)| {
            let of_size = flows.of_size(bucket.from, bucket.to);
            let reduction = base.of_size(bucket.from, bucket.to).reduction(&of_size, Weight::Flows)?;
            Some(Point { x: index as f64, y: reduction.value, error: reduction.margin() })
        };
        let points = buckets.iter().enumerate().filter_map(point);
        series.push(Series::new(name(cell, &compared), colour(cell, index, results), Shape::Bars, points));
    }
    if let [only] = series.as_mut_slice() {
        only.name = format!("{}, measured", only.name);
        series.push(predicted(&buckets, network));
    }
    let y = Axis::new("reduction of the mean FCT", Scale::Linear, Unit::Share);
    let x = Axis::new("flow size", size_names(&buckets), Unit::Bytes);
    Chart::new("", "by flow size; bars: 95 % confidence intervals", x, y, series)
}

/// What RC3's authors drew as theory in Fig. 7.
fn predicted(buckets: &[Bucket], network: Network) -> Series {
    let packet = Duration::from_secs_f64(PACKET_ON_THE_WIRE as f64 / (network.rate * (1.0 - network.load)));
    let point = |(index, bucket): (usize, &Bucket)| {
        let packets = bucket.from.div_ceil(PACKET_BYTES);
        Point::new(index as f64, model::counted_reduction(packets, 4, network.rtt, packet))
    };
    let (name, points) = ("model: packets counted, with handshake", buckets.iter().enumerate().map(point));
    Series::new(name, Colour::Grey, Shape::Frames, points)
}

/// A swept value as a number, and what it is of.
fn quantity(value: &Value) -> Option<(f64, Unit)> {
    let plain = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    let text = value.as_str().unwrap_or_default();
    let number = |unit: &str| text.strip_suffix(unit)?.trim().parse::<f64>().ok();
    let count = plain.or_else(|| number("bdp")).or_else(|| number("packets"));
    count
        .map(|number| (number, Unit::Number))
        .or_else(|| Some((number("%")? / 100.0, Unit::Share)))
        .or_else(|| Some((parse_rate(text).ok()?.get() as f64, Unit::BitsPerSecond)))
        .or_else(|| Some((parse_time(text).ok()?.as_secs_f64(), Unit::Seconds)))
        .or_else(|| Some((parse_size(text).ok()? as f64, Unit::Bytes)))
}

/// Fig. 11: mean FCT against a key that is swept, a line for each run and each setting of the other keys.
fn fct_by_key(picture: &PictureSpec, results: &Results) -> Chart {
    let key = picture.x.clone().unwrap_or_default();
    let mut unit = Unit::Number;
    let mut series: Vec<Series> = Vec::new();
    for cell in shown(picture, results) {
        let (at, point): (Vec<_>, _) = cell.place.point.iter().cloned().partition(|(swept, _)| *swept == key);
        let x = at.first().and_then(|(_, value)| quantity(value));
        let (Some((x, of)), Some(mean)) = (x, cell.all.flows.mean(Weight::Flows)) else { continue };
        if of != Unit::Number {
            unit = of;
        }
        let setting = Label { point, ..cell.place.clone() }.setting();
        let parts = [cell.place.run.clone(), setting.clone()];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let point = Point { x, y: mean.value, error: mean.margin() };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name,
                colour: match results.base(&cell.place).is_some_and(|base| base.place == cell.place) {
                    _ if !setting.is_empty() => Colour::nth(series.len()),
                    true => Colour::Vermillion,
                    false => Colour::nth(if series.len() < 2 { 0 } else { series.len() }),
                },
                shape: Shape::Marked,
                points: vec![point],
            }),
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    // Keys that end so are probabilities or shares of a whole.
    let share = ["loss", "load", "share", "without-priorities"].contains(&short_key(&key));
    let x = Axis::new(short_key(&key), Scale::Linear, if share { Unit::Share } else { unit });
    let y = Axis::new("mean FCT over flows", Scale::Linear, Unit::Seconds).starting(0.0);
    Chart::new("", "bars: 95 % confidence intervals", x, y, series)
}

/// Fig. 10: cumulative distribution of FCTs.
fn distribution(picture: &PictureSpec, results: &Results) -> Chart {
    let cells: Vec<&Cell> = shown(picture, results).collect();
    let bytes = picture.sizes.iter().flatten().map(|packets| packets * PACKET_BYTES).collect::<Vec<_>>();
    let sizes: Vec<Option<u64>> =
        if bytes.is_empty() { vec![None] } else { bytes.into_iter().map(Some).collect() };
    let mut series = Vec::new();
    for (place, size) in sizes.iter().enumerate() {
        for (index, cell) in cells.iter().enumerate() {
            let flows = match size {
                Some(size) => cell.all.flows.of_size(*size, *size),
                None => cell.all.flows.clone(),
            };
            let size = size.map(|size| format!(", {}", about_bytes(size))).unwrap_or_default();
            let name = format!("{}{size}", name(cell, &cells));
            // The same colour for the same run, another stroke for another size.
            let shape = if place == 0 { Shape::Line } else { Shape::Dashed };
            let fcts = flows.iter().map(|flow| flow.fct).collect();
            series.push(Series::new(name, colour(cell, index, results), shape, cumulative(&fcts)));
        }
    }
    let x = Axis::new("FCT", Scale::Log, Unit::Seconds);
    let y = Axis::new("share of flows", Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
    Chart::new("", "cumulative distribution", x, y, series)
}

/// The share of values that each of these is not below.
fn cumulative(sample: &Sample) -> impl Iterator<Item = Point> {
    sample.distribution().map(|(value, share)| Point::new(value, share))
}

/// Fig. 13: median throughput by flow size.
fn throughput_by_size(picture: &PictureSpec, results: &Results) -> Chart {
    let buckets = table::buckets(results);
    let cells: Vec<&Cell> = shown(picture, results).collect();
    let series = cells.iter().enumerate().map(|(index, cell)| {
        let point = |bucket: &Bucket| {
            let of_size = cell.all.flows.of_size(bucket.from, bucket.to);
            let rates: Sample = of_size.iter().map(|flow| flow.bytes as f64 * 8.0 / flow.fct).collect();
            let size = (bucket.from as f64 * bucket.to as f64).sqrt();
            Some(Point::new(size, rates.percentile(0.5)?))
        };
        let points = buckets.iter().filter_map(point);
        Series::new(name(cell, &cells), colour(cell, index, results), Shape::Marked, points)
    });
    let x = Axis::new("flow size", Scale::Log, Unit::Bytes);
    let y = Axis::new("median throughput", Scale::Log, Unit::BitsPerSecond);
    Chart::new("", "size divided by FCT, handshake included", x, y, series)
}

/// Kick-Ass Figs. 3, 4 and 8: mean FCT by flow size; of each scheme where a run has two.
fn fct_by_size(picture: &PictureSpec, results: &Results) -> Chart {
    let buckets = table::buckets(results);
    let cells: Vec<&Cell> = shown(picture, results).collect();
    let mut series: Vec<Series> = Vec::new();
    for cell in &cells {
        let parts = cell.parts.iter().map(|part| (Some(&part.scheme), &part.group));
        let whole = cell.parts.is_empty().then_some((None, &cell.all));
        for (scheme, group) in parts.chain(whole) {
            let point = |bucket: &Bucket| {
                let mean = group.flows.of_size(bucket.from, bucket.to).mean(Weight::Flows)?;
                let size = (bucket.from as f64 * bucket.to as f64).sqrt();
                Some(Point { x: size, y: mean.value, error: mean.margin() })
            };
            let name = name(cell, &cells);
            series.push(Series {
                name: scheme.map_or_else(|| name.clone(), |scheme| format!("{name}: {scheme}")),
                colour: Colour::nth(series.len()),
                shape: Shape::Marked,
                points: buckets.iter().filter_map(point).collect(),
            });
        }
    }
    let x = Axis::new("flow size", Scale::Log, Unit::Bytes);
    let y = Axis::new("mean FCT", Scale::Log, Unit::Seconds);
    Chart::new("", "bars: 95 % confidence intervals", x, y, series)
}

/// Fig. 2: how far either loop has come, from both ends of the flow, against time.
fn time_line(picture: &PictureSpec, results: &Results, network: Network) -> Chart {
    let mut series = Vec::new();
    if let Some(cell) = shown(picture, results).find(|cell| !cell.sent.is_empty()) {
        let connect = cell.sent[0].at;
        let full = cell.sent.iter().map(|packet| packet.size).max().unwrap_or(0);
        let size = cell.all.flows.iter().next().map_or(0, |flow| flow.bytes) as f64;
        let (mut up, mut down) = (0.0, size);
        let (mut primary, mut rlp) = (Vec::new(), Vec::new());
        for packet in data_packets(&cell.sent, network.rtt) {
            let at = (packet.at - connect).as_secs_f64();
            // What a packet lacks to a full one it lacks of the application's bytes.
            let bytes = PACKET_BYTES.saturating_sub((full - packet.size) as u64) as f64;
            if packet.level == 0 {
                up += bytes;
                primary.push(Point::new(at, up));
            } else {
                down -= bytes;
                rlp.push(Point::new(at, down));
            }
        }
        series = vec![
            Series::new("primary", Colour::Vermillion, Shape::Steps, primary),
            Series::new("RLP", Colour::Blue, Shape::Steps, rlp),
        ];
    }
    let x = Axis::new("time since connect", Scale::Linear, Unit::Seconds).starting(0.0);
    let y = Axis::new("bytes sent: primary from the start, RLP from the end", Scale::Linear, Unit::Bytes);
    Chart::new("", "one flow, as its uplink carried it", x, y.starting(0.0), series)
}

/// Fig. 3: packets of each level in each round trip.
fn packets_by_round(picture: &PictureSpec, results: &Results, network: Network) -> Chart {
    let cell = shown(picture, results).find(|cell| !cell.sent.is_empty());
    let sent = cell.map_or(&[][..], |cell| &cell.sent);
    let data = data_packets(sent, network.rtt);
    let rounds =
        data.iter().map(|packet| round_of(packet, data[0], network.rtt)).max().map_or(0, |last| last + 1);
    let level_max = data.iter().map(|packet| packet.level).max().unwrap_or(0);
    let series = (0..=level_max).map(|level| {
        let count = |round: usize| {
            let of_round = |packet: &&&SentPacket| round_of(packet, data[0], network.rtt) == round;
            data.iter().filter(|packet| packet.level == level).filter(of_round).count()
        };
        Series {
            name: if level == 0 { "primary".to_owned() } else { format!("level {level}") },
            colour: match level {
                0 => Colour::Vermillion,
                1 => Colour::Blue,
                _ => Colour::nth(level.into()),
            },
            shape: Shape::Stack,
            points: (0..rounds).map(|round| Point::new(round as f64, count(round) as f64)).collect(),
        }
    });
    let names = Scale::Names((1..=rounds).map(|round| round.to_string()).collect());
    let x = Axis::new("round trip since the first data", names, Unit::Number);
    let y = Axis::new("packets of data", Scale::Linear, Unit::Number).starting(0.0);
    Chart::new("", "one flow, as its uplink carried it", x, y, series)
}

/// Packets that carry data: none of the first round trip, which is the handshake, and no short ones, which only
/// acknowledge.
fn data_packets(sent: &[SentPacket], rtt: Duration) -> Vec<&SentPacket> {
    let full = sent.iter().map(|packet| packet.size).max().unwrap_or(0);
    // Times are of the last bit on the uplink, and a packet of the handshake takes less long than one of data.
    let start = sent.first().map_or(Duration::ZERO, |first| first.at + rtt.mul_f64(0.9));
    sent.iter().filter(|packet| packet.at >= start && packet.size * 2 > full).collect()
}

fn round_of(packet: &SentPacket, first: &SentPacket, rtt: Duration) -> usize {
    let since = packet.at.saturating_sub(first.at).as_nanos();
    (since / rtt.as_nanos().max(1)) as usize
}

/// Fig. 4: the model's reduction against flow size, with what was measured on an idle path, if anything.
fn modelled(picture: &PictureSpec, results: &Results, network: Network) -> Chart {
    let model = network.model(4);
    let sizes = || (0..=240).map(|step| 1000.0 * 10f64.powf(f64::from(step) / 60.0));
    let curve = |name: &str, colour, reduction: &dyn Fn(f64) -> f64| {
        let points = sizes().map(|bytes| Point::new(bytes, reduction(bytes)));
        Series::new(name, colour, Shape::Dashed, points)
    };
    let window = |packets: u64| (packets * PACKET_BYTES) as f64;
    let mut series = vec![
        curve("RC3, model", Colour::Blue, &|bytes| model.reduction(bytes)),
        curve("IW 10, model", Colour::Green, &|bytes| model.reduction_by_window(window(10), bytes)),
        curve("IW 50, model", Colour::Orange, &|bytes| model.reduction_by_window(window(50), bytes)),
    ];
    let buckets = table::buckets(results);
    for (index, cell) in shown(picture, results).enumerate() {
        let Some(base) = results.base(&cell.place).filter(|base| base.place != cell.place) else { continue };
        let point = |bucket: &Bucket| {
            let flows = cell.all.flows.of_size(bucket.from, bucket.to);
            let base = base.all.flows.of_size(bucket.from, bucket.to);
            Some(Point::new(bucket.from as f64, base.reduction(&flows, Weight::Flows)?.value))
        };
        series.push(Series {
            name: format!("{}, one flow", cell.place.run),
            // The first is the base, so that a larger window comes next and gets its model's colour.
            colour: colour(cell, index.saturating_sub(1), results),
            shape: Shape::Marked,
            points: buckets.iter().filter_map(point).collect(),
        });
    }
    let subtitle = format!(
        "{} x {}, {} % in use; initial window 4",
        about_rate(network.rate * 8.0),
        about_time(network.rtt),
        three_digits(network.load * 100.0),
    );
    let x = Axis::new("flow size", Scale::Log, Unit::Bytes).starting(1000.0).ending(1e7);
    let y = Axis::new("reduction of the FCT", Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
    Chart::new("", subtitle, x, y, series)
}
