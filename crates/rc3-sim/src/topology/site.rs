//! Names of the links of a world: `uplink:3`, `downlink:3`, `core:0-4`.

use std::{fmt, str::FromStr};

use rc3_core::units::Rate;
use thiserror::Error;

use super::Topology;
use crate::{agent::HostId, world::LinkId};

/// A link of a world, by its place in the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// From a host to its router.
    Uplink(HostId),
    /// From a router to its host.
    Downlink(HostId),
    /// From one router to another.
    Core(usize, usize),
}

/// A text that names no link.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no link, write uplink:HOST, downlink:HOST or core:ROUTER-ROUTER")]
pub struct NoSite(String);

impl Site {
    /// The link, numbered as in [`Topology::links`]. `None` if the topology has none there.
    pub fn link(self, topology: &Topology) -> Option<LinkId> {
        let place = topology.links().position(|(site, _)| site == self)?;
        Some(LinkId(place as u32))
    }

    /// The rate of the link; `None` if it is infinitely fast, or is not there.
    pub fn rate(self, topology: &Topology) -> Option<Rate> {
        topology.links().find(|(site, _)| *site == self)?.1
    }
}

impl Topology {
    /// All links with their rates, in the order in which [`crate::simulation::Simulation`] numbers those of its worlds: uplink
    /// and downlink of each host, then both directions of each core link. Without a rate a link is infinitely fast.
    pub fn links(&self) -> impl Iterator<Item = (Site, Option<Rate>)> {
        let hosts = (0..).map(HostId).zip(&self.hosts).flat_map(|(id, host)| {
            [(Site::Uplink(id), host.access.uplink), (Site::Downlink(id), host.access.downlink)]
        });
        let cores = self.cores.iter().flat_map(|core| {
            [(core.a, core.b), (core.b, core.a)].map(|(from, to)| (Site::Core(from, to), Some(core.rate)))
        });
        hosts.chain(cores)
    }
}

impl FromStr for Site {
    type Err = NoSite;

    fn from_str(text: &str) -> Result<Self, NoSite> {
        let parse = || {
            let (kind, place) = text.split_once(':')?;
            match kind {
                "uplink" => Some(Self::Uplink(HostId(place.parse().ok()?))),
                "downlink" => Some(Self::Downlink(HostId(place.parse().ok()?))),
                "core" => {
                    let (from, to) = place.split_once('-')?;
                    Some(Self::Core(from.parse().ok()?, to.parse().ok()?))
                }
                _ => None,
            }
        };
        parse().ok_or_else(|| NoSite(text.to_owned()))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uplink(host) => write!(f, "uplink:{}", host.0),
            Self::Downlink(host) => write!(f, "downlink:{}", host.0),
            Self::Core(from, to) => write!(f, "core:{from}-{to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_names_that_parse() {
        for site in [Site::Uplink(HostId(3)), Site::Downlink(HostId(0)), Site::Core(1, 12)] {
            assert_eq!(site.to_string().parse(), Ok(site));
        }
        for text in ["", "uplink", "uplink:", "uplink:x", "core:1", "core:1-", "cable:1", "core:1-2-3"] {
            assert!(text.parse::<Site>().is_err(), "{text}");
        }
    }
}
