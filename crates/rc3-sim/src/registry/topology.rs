//! Topologies by name.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use rc3_core::units::Rate;

use super::{Fault, within};
use crate::{
    scenario::TopologySpec,
    topology::{Access, Map, Topology, bottleneck, dumbbell, fat_tree, from_csv, parking_lot},
};

/// More hosts at a router are refused as a mistake.
const HOSTS_MAX: u32 = 10_000;

/// Keys of a topology whose hosts all have the same access links: see [`TopologyRequest::hosts`] and
/// [`TopologyRequest::access`].
pub const HOST_KEYS: [&str; 6] = ["hosts", "uplink", "downlink", "overhead", "access-delay", "access-rtts"];

const PARKING_LOT_KEYS: [&str; 7] = host_keys_and("links");
const FILE_KEYS: [&str; 7] = host_keys_and("file");

/// [`HOST_KEYS`] and another key.
pub const fn host_keys_and(key: &'static str) -> [&'static str; 7] {
    let [hosts, uplink, downlink, overhead, access_delay, access_rtts] = HOST_KEYS;
    [hosts, uplink, downlink, overhead, access_delay, access_rtts, key]
}

/// Makes a network, see [`TopologyKind::topology`].
type MakeTopology = fn(&TopologyRequest<'_>) -> Result<Topology, Fault>;

/// A topology, or a family of them.
#[derive(Debug, Clone, Copy)]
pub struct TopologyKind {
    /// One line for users, with the parameters.
    pub about: &'static str,
    /// The keys of the table `topology` with a meaning, besides `kind`, `rate`, `rtt`, `core-rates` and
    /// `without-priorities`. A scenario with another one is refused. One with parameters of its own names `parameters`.
    pub keys: &'static [&'static str],
    /// Makes the network. It is called for each world. Keys of its faults are relative to the table `topology`,
    /// `parameters.routers`.
    pub topology: MakeTopology,
}

/// The keys of a topology.
#[derive(Debug, Clone, Copy)]
pub struct TopologyRequest<'a> {
    /// All keys as they are written.
    pub spec: &'a TopologySpec,
    /// The folder that paths are relative to.
    pub folder: &'a Path,
    /// Seed of everything random.
    pub seed: u64,
}

impl TopologyRequest<'_> {
    /// The key `rate`, by default 1 Gbit/s.
    pub fn rate(&self) -> Rate {
        self.spec.rate.unwrap_or_else(|| gigabits(1))
    }

    /// The key `rtt`, by default 40 ms.
    pub fn rtt(&self) -> Duration {
        self.spec.rtt.unwrap_or(Duration::from_millis(40))
    }

    /// The key `hosts`, by default 10.
    ///
    /// # Errors
    /// If it is zero or too large.
    pub fn hosts(&self) -> Result<u32, Fault> {
        within(self.spec.hosts.unwrap_or(10), 1..=HOSTS_MAX, "hosts")
    }

    /// The access links by the keys `uplink`, by default the given rate, `downlink`, `overhead` and `access-delay`.
    pub fn access(&self, uplink: Rate) -> Access {
        let uplink = self.spec.uplink.unwrap_or(uplink);
        Access {
            downlink: Some(self.spec.downlink.unwrap_or(uplink)),
            overhead: self.spec.overhead.unwrap_or_default(),
            delay: self.spec.access_delay.unwrap_or_default(),
            ..Access::uplink(uplink)
        }
    }

    /// The text of the file `name`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, name: &str) -> Result<String, Fault> {
        fs::read_to_string(self.folder.join(name))
            .map_err(|error| Fault::new("file", format!("{name}: {error}")))
    }

    /// So many times `rate`; ten times, and access links are no bottleneck.
    fn times(&self, factor: u32) -> Rate {
        let rate = self.rate();
        Rate::from_bits_per_second(rate.bits_per_second().saturating_mul(factor.into())).unwrap_or(rate)
    }
}

fn gigabits(gigabits: u64) -> Rate {
    Rate::from_bits_per_second(gigabits * 1_000_000_000).expect("not zero")
}

/// A network of this crate whose core links are as fast as uplinks need.
fn of_map(map: Map, request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let rate = request.rate();
    Ok(map.topology(rate, request.rtt(), request.hosts()?, request.access(rate)))
}

fn of_fat_tree(request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let rate = request.spec.rate.unwrap_or_else(|| gigabits(100));
    let rtt = request.spec.rtt.unwrap_or(Duration::from_micros(96));
    match request.spec.ports.unwrap_or(8) {
        ports @ 2..=64 if ports % 2 == 0 => Ok(fat_tree(ports, rate, rtt)),
        _ => Err(Fault::new("ports", "an even number from 2 to 64")),
    }
}

fn of_dumbbell(request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let access = request.access(request.times(10));
    Ok(dumbbell(request.rate(), request.rtt(), request.hosts()?, access))
}

fn of_bottleneck(request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let card = within(request.spec.card.unwrap_or(10), 1..=1000, "card")?;
    Ok(bottleneck(request.rate(), request.rtt(), request.hosts()?, request.times(card)))
}

fn of_parking_lot(request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let access = request.access(request.times(10));
    let links = within(request.spec.links.unwrap_or(3), 1..=100, "links")?;
    Ok(parking_lot(links, request.rate(), request.rtt(), request.hosts()?, access))
}

fn of_file(request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let file =
        request.spec.file.as_ref().ok_or_else(|| Fault::new("", "kind `file` needs the key `file`"))?;
    let text = request.read(file)?;
    let rate = request.rate();
    let mut topology = from_csv(&text, file, request.hosts()?, request.access(rate), rate)
        .map_err(|error| Fault::new("file", error))?;
    topology.nominal.rtt = request.spec.rtt.unwrap_or(topology.nominal.rtt);
    Ok(topology)
}

/// Name, description, keys and function of the built-in ones.
const BUILT_IN: [(&str, &str, &[&str], MakeTopology); 10] = [
    ("internet2", "The papers' Internet-2: ten routers, sixteen core links.", &HOST_KEYS, |request| {
        of_map(Map::Internet2, request)
    }),
    ("telstra", "Rocketfuel's AS 1221.", &HOST_KEYS, |request| of_map(Map::Telstra, request)),
    ("redclara", "The academic network of Latin America.", &HOST_KEYS, |request| {
        of_map(Map::Redclara, request)
    }),
    ("esnet", "The network of the U.S. Department of Energy.", &HOST_KEYS, |request| {
        of_map(Map::Esnet, request)
    }),
    ("abilene", "Internet2 in 2004, from the Topology Zoo.", &HOST_KEYS, |request| {
        of_map(Map::Abilene, request)
    }),
    ("fat-tree", "A data centre's fat tree, with links of one rate everywhere.", &["ports"], of_fat_tree),
    (
        "dumbbell",
        "Two routers with one core link of `rate` between them. Hosts 0 to `hosts` - 1 are at router 0, the others at router 1.",
        &HOST_KEYS,
        of_dumbbell,
    ),
    (
        "bottleneck",
        "Two routers with one core link of `rate` between them. Hosts with even numbers are at router 0, the others at router 1; their uplinks are `card` times as fast.",
        &["hosts", "card"],
        of_bottleneck,
    ),
    ("parking-lot", "Routers in a row, joined by core links of `rate`.", &PARKING_LOT_KEYS, of_parking_lot),
    ("file", "Core links from a CSV file.", &FILE_KEYS, of_file),
];

/// The built-in ones by name.
pub(super) fn built_in() -> BTreeMap<String, TopologyKind> {
    let named = |(name, about, keys, topology): (&str, _, _, _)| {
        (name.to_owned(), TopologyKind { about, keys, topology })
    };
    BUILT_IN.map(named).into()
}
