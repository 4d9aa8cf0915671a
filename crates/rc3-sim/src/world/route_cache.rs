//! The routes of parcels: which links, one after the other.

use super::LinkId;
use crate::agent::{HostId, RoutePosition};

/// The links of a parcel's route, uplink and downlink included.
pub type Route = Box<[LinkId]>;

/// Computes the route from host to host.
pub type FindRoute = Box<dyn FnMut(HostId, HostId) -> Route + Send>;

/// All routes computed so far. They lie in one vector, since each parcel looks up its next link on each hop.
pub(super) struct RouteCache {
    router: FindRoute,
    /// The links of all routes, each with [`END`] after its last.
    links: Vec<LinkId>,
    /// Where in `links` a route begins, by the numbers of its hosts; [`UNKNOWN`] before the first packet.
    starts: Vec<Vec<u32>>,
}

const END: LinkId = LinkId(u32::MAX);
const UNKNOWN: u32 = u32::MAX;

impl RouteCache {
    pub(super) fn new(router: FindRoute) -> Self {
        Self { router, links: Vec::new(), starts: Vec::new() }
    }

    /// Where the route from host to host begins.
    pub(super) fn start(&mut self, from: HostId, to: HostId) -> RoutePosition {
        let [from_index, to_index] = [from, to].map(|host| host.0 as usize);
        if self.starts.len() <= from_index {
            self.starts.resize(from_index + 1, Vec::new());
        }
        let starts = &mut self.starts[from_index];
        if starts.len() <= to_index {
            starts.resize(to_index + 1, UNKNOWN);
        }
        if starts[to_index] == UNKNOWN {
            starts[to_index] = self.links.len() as u32;
            self.links.extend((self.router)(from, to));
            self.links.push(END);
        }
        RoutePosition { place: starts[to_index], hops: 0 }
    }

    /// The link after the one whose end has been reached; `None` where the route ends.
    pub(super) fn advance(&self, progress: &mut RoutePosition) -> Option<LinkId> {
        progress.place += 1;
        progress.hops += 1;
        Some(self.links[progress.place as usize]).filter(|&link| link != END)
    }

    /// All links of a route.
    pub(super) fn links(&mut self, from: HostId, to: HostId) -> &[LinkId] {
        let start = self.start(from, to).place as usize;
        let len = self.links[start..].iter().take_while(|&&link| link != END).count();
        &self.links[start..start + len]
    }
}
