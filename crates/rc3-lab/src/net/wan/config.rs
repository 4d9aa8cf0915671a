//! What the WAN is to do.

use std::{fs, io};

use kickass::packet::Packet;
use rc3_link::{Bursts, Impairments, Link, LinkConfig, Policer, Trace, Waiting};
use rc3_queue::{DropTail, FqCodel, FqCodelConfig, Queue, StrictPriority};
use rc3_sim::{Cake, CodelFifo, DropFront};
use serde::{Deserialize, Serialize};

use super::meddling::Meddling;
use crate::net::path::{Discipline, Loss, Path};

/// Device from which packets to the receiver come, and the one from which packets to the sender come.
pub const DEVICES: [&str; 2] = ["wan-a", "wan-b"];

/// Two directions between two devices in one network namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WanConfig {
    /// The namespace, as `ip netns` names it.
    pub netns: String,
    /// The path to the receiver. The way back has its rate and delay, a drop-tail queue of a bandwidth-delay product, and no
    /// loss.
    pub path: Path,
    /// Seed of everything random.
    pub seed: u64,
    /// What else happens to packets of QUIC.
    #[serde(default)]
    pub meddling: Meddling,
}

impl WanConfig {
    /// The links of both directions.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub(super) fn links(&self) -> io::Result<[Link<Packet>; 2]> {
        let back = Path::new(self.path.rate, self.path.rtt);
        Ok([link(&self.path, self.seed)?, link(&back, self.seed ^ 1)?])
    }
}

fn link(path: &Path, seed: u64) -> io::Result<Link<Packet>> {
    let trace = path.trace.as_ref().map(|file| {
        let text = fs::read_to_string(file)?;
        text.parse::<Trace>().map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
    });
    let Loss { share, burst } = path.loss;
    let config = LinkConfig {
        // What passes a policer or the bottleneck of a recipe goes on at once.
        rate: (path.discipline != Discipline::Policer && path.recipe.is_none()).then_some(path.rate.into()),
        trace: trace.transpose()?,
        delay: path.rtt / 2,
        impairments: match burst > 1.0 {
            true => Impairments { bursts: Some(Bursts::of(share, burst)), ..Impairments::default() },
            false => Impairments::loss(share),
        },
        seed,
        ..LinkConfig::default()
    };
    Ok(Link::new(config, queue(path, seed)))
}

fn queue(path: &Path, seed: u64) -> Box<dyn Queue<Waiting<Packet>> + Send> {
    let limit = path.limit();
    match path.discipline {
        Discipline::DropTail => Box::new(DropTail::new(limit)),
        Discipline::DropFront => Box::new(DropFront::new(limit)),
        Discipline::Codel => Box::new(CodelFifo::new(limit)),
        Discipline::FqCodel => {
            Box::new(FqCodel::new(FqCodelConfig { limit, key: seed, ..FqCodelConfig::default() }))
        }
        Discipline::Cake => Box::new(Cake::new(limit, seed)),
        Discipline::Policer => Box::new(Policer::new(path.rate.into(), limit)),
        Discipline::Priority => Box::new(StrictPriority::by_level(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_reads_back_and_names_a_bad_trace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bad.trace");
        fs::write(&file, "5\n4\n").unwrap();
        let path = Path { trace: Some(file), ..Path::of(10, 10) };
        let config = WanConfig { netns: "n".to_owned(), path, seed: 7, meddling: Meddling::default() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<WanConfig>(&text).unwrap(), config);
        let error = config.links().unwrap_err().to_string();
        assert!(error.contains("bad.trace: line 2"), "{error}");
    }
}
