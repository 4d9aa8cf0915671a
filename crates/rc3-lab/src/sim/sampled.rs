//! The samples of a link, and the metrics computed from them.

use std::{collections::BTreeMap, time::Duration};

use rc3_sim::{
    agent::FlowId,
    sample::{FlowSample, LinkSample},
    scenario::{Metric, Run},
};

use crate::statistics::Sample;

/// The samples of a link of one world.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    /// The samples, in order of time.
    pub samples: Vec<LinkSample>,
    /// Interval of the samples.
    pub every: Duration,
    /// Rate of the link, bytes per second; infinite if it has none.
    pub rate: f64,
    /// Names of the schemes, by their numbers.
    pub schemes: Vec<String>,
}

impl Sampled {
    /// The samples of a world.
    pub fn new(run: &Run, samples: Vec<LinkSample>) -> Self {
        let rate = run.measure.sample.and_then(|sampling| sampling.site.rate(&run.topology));
        let rate = rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64 / 8.0);
        let every = run.measure.sample.map(|sampling| sampling.every).unwrap_or_default();
        Self { samples, every, rate, schemes: run.schemes.iter().map(|scheme| scheme.name.clone()).collect() }
    }

    /// The samples after the first of these instants and up to the second.
    pub fn between(&self, (from, to): (Duration, Duration)) -> Self {
        let inside = |sample: &&LinkSample| from < sample.at && sample.at <= to;
        Self { samples: self.samples.iter().filter(inside).cloned().collect(), ..self.clone() }
    }

    /// The same with the flows of one scheme alone.
    pub fn of_scheme(&self, name: &str) -> Self {
        let is_of =
            |flow: &FlowSample| self.schemes.get(usize::from(flow.scheme.0)).is_some_and(|n| n == name);
        let samples = self.samples.iter().map(|sample| LinkSample {
            flows: sample.flows.iter().copied().filter(is_of).collect(),
            ..sample.clone()
        });
        Self { samples: samples.collect(), ..self.clone() }
    }

    /// Schemes with flows on the link, by name.
    pub fn schemes_seen(&self) -> Vec<&str> {
        let seen = |&(number, _): &(usize, &String)| {
            let mut flows = self.samples.iter().flat_map(|sample| &sample.flows);
            flows.any(|flow| usize::from(flow.scheme.0) == number)
        };
        self.schemes.iter().enumerate().filter(seen).map(|(_, name)| name.as_str()).collect()
    }

    /// Flows on the link.
    pub fn flows_seen(&self) -> usize {
        self.bytes().len()
    }

    /// A metric in its own unit; `None` if it is of another kind, or there are no samples.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let value = match metric {
            Metric::Utilisation => 100.0 * self.throughput()? / self.rate,
            Metric::Fairness => 100.0 * self.fairness()?,
            Metric::FlowRate => {
                let flows = self.bytes().len() as f64;
                self.throughput()? / flows * 8.0 / 1e6
            }
            Metric::Queueing => {
                mean(self.samples.iter().map(|sample| sample.queue_bytes as f64))? / self.rate
            }
            Metric::QueueingP99 => {
                let queues = self.samples.iter().map(|sample| sample.queue_bytes as f64);
                queues.collect::<Sample>().percentile(0.99)? / self.rate
            }
            Metric::KickassMode => 100.0 * mean(self.samples.iter().filter_map(following))?,
            // Of flows.
            _ => return None,
        };
        value.is_finite().then_some(value)
    }

    /// Bytes per second of all flows.
    fn throughput(&self) -> Option<f64> {
        let bytes: u64 = self.bytes().values().sum();
        let time = self.every.as_secs_f64() * self.samples.len() as f64;
        (time > 0.0).then(|| bytes as f64 / time)
    }

    /// Jain's index of the flows' bytes.
    fn fairness(&self) -> Option<f64> {
        let bytes = self.bytes();
        let sum: f64 = bytes.values().map(|&bytes| bytes as f64).sum();
        let squares: f64 = bytes.values().map(|&bytes| (bytes as f64).powi(2)).sum();
        (squares > 0.0).then(|| sum * sum / squares / bytes.len() as f64)
    }

    fn bytes(&self) -> BTreeMap<FlowId, u64> {
        let mut bytes = BTreeMap::new();
        for flow in self.samples.iter().flat_map(|sample| &sample.flows) {
            *bytes.entry(flow.flow).or_default() += flow.bytes;
        }
        bytes
    }
}

/// Share of the flows in Kick-Ass mode, of those with that controller.
pub fn following(sample: &LinkSample) -> Option<f64> {
    mean(sample.flows.iter().filter_map(|flow| flow.kickass).map(|follows| if follows { 1.0 } else { 0.0 }))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use rc3_sim::agent::SchemeId;

    use super::*;

    fn flow(number: u32, scheme: u16, bytes: u64, kickass: Option<bool>) -> FlowSample {
        FlowSample { flow: FlowId(number), scheme: SchemeId(scheme), bytes, kickass }
    }

    fn sampled() -> Sampled {
        let second = Duration::from_secs(1);
        let sample = |n: u32, queue_bytes, flows| LinkSample { at: second * n, queue_bytes, flows };
        Sampled {
            samples: vec![
                sample(1, 0, vec![flow(0, 0, 500, Some(true)), flow(1, 1, 500, None)]),
                sample(2, 100, vec![flow(0, 0, 300, Some(false)), flow(1, 1, 100, None)]),
            ],
            every: second,
            rate: 1000.0,
            schemes: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        }
    }

    #[test]
    fn metrics_are_of_the_time_and_the_scheme_asked_for() {
        let all = sampled();
        assert_eq!(all.metric(Metric::Utilisation), Some(70.0));
        assert_eq!(all.metric(Metric::Queueing), Some(0.05));
        assert_eq!(all.metric(Metric::QueueingP99), Some(0.1));
        assert_eq!(all.metric(Metric::KickassMode), Some(50.0));
        assert_eq!(all.metric(Metric::Fct), None);
        assert_eq!(all.schemes_seen(), ["a", "b"]);
        let second = Duration::from_secs(1);
        let later = all.between((second, 2 * second));
        assert_eq!(later.samples.len(), 1);
        assert_eq!(all.between((Duration::ZERO, second)).metric(Metric::Fairness), Some(100.0));
        assert!((later.metric(Metric::Fairness).unwrap() - 80.0).abs() < 1e-9);
        assert_eq!(all.of_scheme("a").metric(Metric::FlowRate), Some(0.0032));
        assert_eq!(all.of_scheme("b").metric(Metric::KickassMode), None);
        assert_eq!(all.of_scheme("c").metric(Metric::Fairness), None);
    }
}
