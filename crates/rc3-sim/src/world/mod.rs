//! A network in virtual time: hosts that run agents, links that carry their parcels, and the clock.
//!
//! Each host has an uplink to its router and a downlink from it; routers are joined by links, and forward without
//! delay. What happens at one instant happens in a fixed order: links deliver in the order of their numbers, then
//! hosts whose timeout has come are woken, then hosts that received something send. Nothing depends on a wall clock or on
//! threads, so a world with one seed has one future.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use rc3_core::{RlpMode, TransportConfig, units::Rate};
//! use rc3_sim::{Crypto, DropTail, LinkConfig, StrictPriority};
//! use rc3_sim::{agent::{Flow, HostId}, host::{Host, HostConfig}, world::{LinkId, World}};
//!
//! let mut transport = TransportConfig::default();
//! transport.rlp(RlpMode::Trust);
//! let config = Arc::new(HostConfig::new([transport.clone()], transport, Crypto::None, 1));
//! // Uplink and downlink of each host, in this order; one router in the middle.
//! let mut world = World::new(Box::new(|from, to| [LinkId(2 * from.0), LinkId(2 * to.0 + 1)].into()));
//! let rate = Rate::from_bits_per_second(1_000_000_000);
//! for host in [HostId(0), HostId(1)] {
//!     let slow = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
//!     let uplink = world.add_link(slow, Box::new(StrictPriority::by_level(5_000_000)));
//!     world.add_link(LinkConfig::default(), Box::new(DropTail::new(u64::MAX)));
//!     world.add_host(Box::new(Host::new(host, config.clone())), uplink);
//! }
//! world.start(&Flow::new(HostId(0), HostId(1), 1_000_000));
//! assert!(world.run_to_end(Duration::from_secs(10)));
//! let fct = world.poll_record().and_then(|record| record.fct).unwrap();
//! // One round trip to connect, half a one and 8 ms for the bytes.
//! assert!(fct > Duration::from_millis(68) && fct < Duration::from_millis(70), "{fct:?}");
//! ```

mod event_queue;
mod flow_table;
mod meter;
mod route_cache;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use kickass::endpoint::Mode;
use rc3_core::{ConnectionStats, units::Rate};

pub use self::route_cache::{FindRoute, Route};
use self::{
    event_queue::{EventQueue, Sleeper},
    flow_table::FlowTable,
    meter::{Meter, Metered},
    route_cache::RouteCache,
};

use crate::{
    Link, LinkConfig, LinkStats, Packet, Queue, Waiting,
    agent::{Agent, Flow, FlowId, HostId, Parcel},
    record::FlowRecord,
    sample::{FlowSample, LinkSample},
};

/// A link of a world, counted from 0 in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// A queue in front of a link of a [`World`].
pub type ParcelQueue = Box<dyn Queue<Waiting<Parcel>> + Send>;

/// Called for each packet that arrives at the end of a link.
pub type Tap = Box<dyn FnMut(Duration, LinkId, &Packet<Parcel>) + Send>;

/// Called with the counters of a flow's sender after each packet and after each attempt to send.
pub type StatsObserver = Box<dyn FnMut(Duration, &ConnectionStats) + Send>;

/// Hosts, links and a clock.
pub struct World {
    epoch: Instant,
    now: Instant,
    links: Vec<Link<Parcel>>,
    hosts: Vec<AttachedHost>,
    routes: RouteCache,
    event_queue: EventQueue,
    /// Hosts that received something since they last had the chance to send.
    runnable: VecDeque<usize>,
    flows: FlowTable,
    tap: Option<Tap>,
    watch: Option<(HostId, FlowId, StatsObserver)>,
    meter: Option<Meter>,
    counts: Counts,
}

struct AttachedHost {
    agent: Box<dyn Agent + Send>,
    uplink: LinkId,
    runnable: bool,
}

/// How much a world has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Times a link or a host was woken.
    pub events: u64,
    /// Packets that have reached the end of a link: one packet on three links counts three times.
    pub link_packets: u64,
    /// Flows begun.
    pub flows_started: u64,
    /// Flows done at both ends, or given up.
    pub flows_ended: u64,
}

impl World {
    /// An empty world at rest; `router` computes its routes.
    pub fn new(router: FindRoute) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "a name for time zero; all others are computed from it"
        )]
        let epoch = Instant::now();
        Self {
            epoch,
            now: epoch,
            links: Vec::new(),
            hosts: Vec::new(),
            routes: RouteCache::new(router),
            event_queue: EventQueue::new(epoch),
            runnable: VecDeque::new(),
            flows: FlowTable::new(epoch),
            tap: None,
            watch: None,
            meter: None,
            counts: Counts::default(),
        }
    }

    /// Adds a link.
    pub fn add_link(&mut self, config: LinkConfig, queue: ParcelQueue) -> LinkId {
        self.links.push(Link::boxed(config, queue));
        self.event_queue.make_room(self.links.len(), self.hosts.len());
        LinkId(self.links.len() as u32 - 1)
    }

    /// Adds a host that sends over `uplink`.
    pub fn add_host(&mut self, agent: Box<dyn Agent + Send>, uplink: LinkId) -> HostId {
        self.hosts.push(AttachedHost { agent, uplink, runnable: false });
        self.event_queue.make_room(self.links.len(), self.hosts.len());
        HostId(self.hosts.len() as u32 - 1)
    }

    /// From now on `tap` sees each packet that arrives at the end of a link.
    pub fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// From now on `watch` follows a flow that `host` sends, in the place of any other.
    pub fn set_watch(&mut self, host: HostId, flow: FlowId, watch: StatsObserver) {
        self.watch = Some((host, flow, watch));
    }

    /// From now on [`Self::sample`] reports on this link.
    pub fn set_meter(&mut self, link: LinkId) {
        self.meter = Some(Meter::new(link));
    }

    /// What the metered link has carried since the last call, and its flows' modes now; `None` if no link is metered.
    pub fn sample(&mut self) -> Option<LinkSample> {
        let meter = self.meter.as_mut()?;
        let queue_bytes = self.links[meter.link.0 as usize].queue_bytes(self.now);
        let hosts = &self.hosts;
        let flow = |(flow, metered): (FlowId, Metered)| {
            let stats = hosts[metered.from.0 as usize].agent.sender_stats(flow);
            FlowSample {
                flow,
                scheme: metered.scheme,
                bytes: metered.bytes,
                kickass: stats.and_then(follows),
            }
        };
        let flows = meter.take().into_iter().map(flow).collect();
        Some(LinkSample { at: self.now - self.epoch, queue_bytes, flows })
    }

    /// The beginning, for queues that count from then.
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Links added so far.
    pub fn links(&self) -> u32 {
        self.links.len() as u32
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.now - self.epoch
    }

    /// How much has happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counters of the sender of a flow under way, where its transport has any.
    pub fn sender_stats(&self, from: HostId, flow: FlowId) -> Option<ConnectionStats> {
        self.hosts.get(from.0 as usize)?.agent.sender_stats(flow)
    }

    /// Flows under way.
    pub fn live_flows(&self) -> usize {
        self.flows.live()
    }

    /// Counters of a link, as of the last packet it took or delivered.
    pub fn link_stats(&self, link: LinkId) -> &LinkStats {
        self.links[link.0 as usize].stats()
    }

    /// Records of flows that are done, in the order in which they ended.
    pub fn poll_record(&mut self) -> Option<FlowRecord> {
        self.flows.poll()
    }

    /// Changes the rate of a link from now on; `None` is infinitely fast.
    pub fn set_rate(&mut self, link: LinkId, rate: Option<Rate>) {
        let index = link.0 as usize;
        self.links[index].set_rate(self.now, rate);
        self.event_queue.set(Sleeper::Link(link.0), self.links[index].poll_timeout());
    }

    /// Moves on to `flow.at` and begins it.
    ///
    /// # Panics
    /// When there is no such host, or the instant is past.
    pub fn start(&mut self, flow: &Flow) {
        let at = self.epoch + flow.at;
        assert!(at >= self.now, "{:?} begins in the past", flow.id);
        self.run_until(flow.at);
        let hops = self.route(flow.from, flow.to).len() - 2;
        self.counts.flows_started += 1;
        self.flows.start(flow, hops as u8);
        let index = flow.from.0 as usize;
        self.hosts[index].agent.start(self.now, flow);
        self.make_runnable(index);
        self.send();
    }

    /// Lets everything happen that happens by `until`, and makes that the present.
    pub fn run_until(&mut self, until: Duration) {
        while self.step_until(until) {}
        self.now = self.now.max(self.epoch + until);
    }

    /// Runs until no flow is under way or `limit` has come; whether none is.
    pub fn run_to_end(&mut self, limit: Duration) -> bool {
        while self.flows.live() > 0 {
            if !self.step_until(limit) {
                return false;
            }
        }
        true
    }

    /// Lets the next thing happen, if it happens by `until`; whether anything did. Calls of [`Self::run_until`] in between make
    /// no difference.
    pub fn step_until(&mut self, until: Duration) -> bool {
        let until = self.epoch + until;
        let Some(at) = self.event_queue.next().filter(|&at| at <= until) else { return false };
        self.now = at;
        while let Some(sleeper) = self.event_queue.due(at) {
            self.counts.events += 1;
            match sleeper {
                Sleeper::Link(index) => self.deliver(index as usize),
                Sleeper::Host(index) => self.wake(index as usize),
            }
        }
        self.send();
        true
    }

    /// Takes what has arrived at the end of a link to the next link or to its host.
    fn deliver(&mut self, index: usize) {
        let timeout = loop {
            let packet = self.links[index].poll_packet(self.now);
            let any = packet.is_some();
            if let Some(packet) = packet {
                self.forward(index, packet);
            }
            // Seldom does a second packet arrive at the same instant.
            let timeout = self.links[index].poll_timeout();
            if !any || timeout.is_none_or(|at| at > self.now) {
                break timeout;
            }
        };
        self.event_queue.set(Sleeper::Link(index as u32), timeout);
    }

    /// Takes a packet at the end of a link to the next one or to its host.
    fn forward(&mut self, index: usize, mut packet: Packet<Parcel>) {
        self.counts.link_packets += 1;
        if let Some(tap) = &mut self.tap {
            tap(self.now - self.epoch, LinkId(index as u32), &packet);
        }
        if let Some(meter) = self.meter.as_mut().filter(|meter| meter.link.0 as usize == index) {
            meter.count(&packet.payload, packet.size);
        }
        match self.routes.advance(&mut packet.payload.progress) {
            Some(next) => self.put(next, packet),
            None => {
                let host = packet.payload.to.0 as usize;
                self.hosts[host].agent.handle(self.now, packet.payload);
                self.make_runnable(host);
            }
        }
    }

    /// Its next timeout is set once it has sent.
    fn wake(&mut self, index: usize) {
        self.event_queue.set(Sleeper::Host(index as u32), None);
        let agent = &mut self.hosts[index].agent;
        if agent.poll_timeout().is_some_and(|at| at <= self.now) {
            agent.handle_timeout(self.now);
        }
        self.make_runnable(index);
    }

    fn make_runnable(&mut self, index: usize) {
        if !self.hosts[index].runnable {
            self.hosts[index].runnable = true;
            self.runnable.push_back(index);
        }
    }

    /// Lets every host send that received something.
    fn send(&mut self) {
        while let Some(index) = self.runnable.pop_front() {
            let uplink = self.hosts[index].uplink;
            loop {
                let backlog = self.links[uplink.0 as usize].queue_bytes(self.now);
                let Some(mut packet) = self.hosts[index].agent.poll_transmit(self.now, backlog) else {
                    break;
                };
                let Parcel { from, to, .. } = packet.payload;
                packet.payload.progress = self.routes.start(from, to);
                self.put(uplink, packet);
                self.show(index);
            }
            self.show(index);
            let host = &mut self.hosts[index];
            host.runnable = false;
            while let Some(event) = host.agent.poll_event() {
                self.counts.flows_ended += u64::from(self.flows.on_event(event));
            }
            let room = match host.agent.waits_for_uplink() {
                true => self.links[uplink.0 as usize].service_end(),
                false => None,
            };
            let wish = match (host.agent.poll_timeout(), room) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            self.event_queue.set(Sleeper::Host(index as u32), wish);
        }
    }

    /// Calls the watch, if it follows a flow of this host.
    fn show(&mut self, index: usize) {
        if let Some((host, flow, watch)) = &mut self.watch
            && host.0 as usize == index
            && let Some(stats) = self.hosts[index].agent.sender_stats(*flow)
        {
            watch(self.now - self.epoch, &stats);
        }
    }

    fn put(&mut self, link: LinkId, packet: Packet<Parcel>) {
        let index = link.0 as usize;
        self.links[index].send(self.now, packet);
        self.event_queue.set(Sleeper::Link(link.0), self.links[index].poll_timeout());
    }

    /// The way from one host to another.
    pub(crate) fn route(&mut self, from: HostId, to: HostId) -> &[LinkId] {
        self.routes.links(from, to)
    }
}

/// Whether a sender follows the rates of routers now; `None` if it never does.
fn follows(stats: ConnectionStats) -> Option<bool> {
    stats.kickass.map(|kickass| kickass.mode == Mode::KickAss)
}
