//! What the WAN is to do, as a line of JSON on its command line.

use std::{fs, io, path::PathBuf, time::Duration};

use kickass::packet::Packet;
use rc3_core::units::Rate;
use rc3_link::{Bursts, Impairments, Link, LinkConfig, Policer, Stamped, Trace};
use rc3_queue::{DropTail, FqCodel, FqCodelConfig, Queue, StrictPriority};
use rc3_sim::{Cake, CodelFifo, DropFront};
use serde::{Deserialize, Serialize};

use super::middlebox::Middlebox;
use crate::net::path::{Discipline, Loss, Path};

/// Two directions between two devices in one network namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WanConfig {
    /// The namespace, as `ip netns` names it.
    pub netns: String,
    /// Device from which packets to the receiver come, and the one from which packets to the sender come.
    pub devices: [String; 2],
    /// The link to the receiver, and the one back.
    pub links: [LinkSpec; 2],
    /// Where to write how many bytes left towards the receiver over time, by source and code point.
    pub timeline: Option<PathBuf>,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Bits per second.
    pub rate: u64,
    /// One-way delay.
    pub delay_ns: u64,
    /// The queue.
    pub discipline: Discipline,
    /// Bytes that may wait.
    pub limit: u64,
    /// Packets lost behind the queue.
    pub loss: Loss,
    /// A trace that replaces the rate.
    pub trace: Option<PathBuf>,
    /// A box in front of the queue.
    pub middlebox: Middlebox,
    /// Seed of everything random.
    pub seed: u64,
}

impl LinkSpec {
    /// Both directions of a path. The way back has the rate, a drop-tail queue of a bandwidth-delay product, and no loss.
    pub fn both(path: &Path, seed: u64) -> [Self; 2] {
        let rate = path.rate.bits_per_second();
        let delay_ns = u64::try_from((path.rtt / 2).as_nanos()).unwrap_or(u64::MAX);
        let Path { discipline, loss, trace, middlebox, .. } = path.clone();
        let forward = Self { rate, delay_ns, discipline, limit: path.limit(), loss, trace, middlebox, seed };
        let limit = Path { buffer: 1.0, ..path.clone() }.limit();
        let (discipline, loss) = (Discipline::DropTail, Loss::default());
        let middlebox = Middlebox::None;
        [forward, Self { rate, delay_ns, discipline, limit, loss, trace: None, middlebox, seed: seed ^ 1 }]
    }

    /// The link.
    ///
    /// # Errors
    /// If the trace cannot be read, or the rate is zero.
    pub(super) fn link(&self) -> io::Result<Link<Packet>> {
        let rate = Rate::from_bits_per_second(self.rate).ok_or_else(|| io::Error::other("a rate of zero"))?;
        let trace = self.trace.as_ref().map(|file| {
            let text = fs::read_to_string(file)?;
            text.parse::<Trace>().map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
        });
        let config = LinkConfig {
            // What passes a policer goes on at once.
            rate: (self.discipline != Discipline::Policer).then_some(rate),
            trace: trace.transpose()?,
            delay: Duration::from_nanos(self.delay_ns),
            impairments: self.impairments(),
            seed: self.seed,
            ..LinkConfig::default()
        };
        Ok(Link::new(config, self.queue(rate)))
    }

    fn impairments(&self) -> Impairments {
        let Loss { share, burst } = self.loss;
        if burst > 1.0 {
            return Impairments { bursts: Some(Bursts::of(share, burst)), ..Impairments::default() };
        }
        Impairments::loss(share)
    }

    fn queue(&self, rate: Rate) -> Box<dyn Queue<Waiting> + Send> {
        let Self { limit, seed, .. } = *self;
        match self.discipline {
            Discipline::DropTail => Box::new(DropTail::new(limit)),
            Discipline::DropFront => Box::new(DropFront::new(limit)),
            Discipline::Codel => Box::new(CodelFifo::new(limit)),
            Discipline::FqCodel => {
                Box::new(FqCodel::new(FqCodelConfig { limit, key: seed, ..FqCodelConfig::default() }))
            }
            Discipline::Cake => Box::new(Cake::new(limit, seed)),
            Discipline::Policer => Box::new(Policer::new(rate, limit)),
            Discipline::Priority => Box::new(StrictPriority::by_level(limit)),
        }
    }
}

/// What waits in a queue of the WAN.
type Waiting = rc3_link::Packet<Stamped<Packet>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_reads_back_and_names_a_bad_trace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bad.trace");
        fs::write(&file, "5\n4\n").unwrap();
        let rate = Rate::from_bits_per_second(10_000_000).unwrap();
        let path = Path { trace: Some(file), ..Path::new(rate, Duration::from_millis(10)) };
        let config = WanConfig {
            netns: "n".to_owned(),
            devices: ["a".to_owned(), "b".to_owned()],
            links: LinkSpec::both(&path, 7),
            timeline: None,
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<WanConfig>(&text).unwrap(), config);
        let error = config.links[0].link().unwrap_err().to_string();
        assert!(error.contains("bad.trace: line 2"), "{error}");
        assert!(config.links[1].link().is_ok());
    }
}
