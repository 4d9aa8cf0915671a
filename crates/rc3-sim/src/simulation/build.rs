//! From a run to its world: links, queues and hosts.

use std::{sync::Arc, time::Duration};

use rc3_core::{AckFrequencyConfig, RlpMode, TransportConfig, VarInt, units::Rate};

use super::SimulationError;
use crate::{
    Crypto, Impairments, KickAssConfig, KickAssQueue, LinkConfig,
    agent::{Agent, HostId},
    host::{Host, HostConfig},
    random::{LINKS, UPLINKS, derive},
    rcp::{self, RcpQueue},
    registry::QueueLimit,
    scenario::{self, KickAssSpec, Mode, Run, SchemeKind},
    topology::Topology,
    world::{LinkId, ParcelQueue, World},
};

/// Bytes of the application in a full packet: a TCP segment of an Ethernet frame.
const SEGMENT: u16 = 1460;

/// The world of a run, and the uplink of each host.
pub(super) fn world(run: &Run) -> Result<(World, Vec<LinkId>), SimulationError> {
    let topology = &run.topology;
    let builder = Builder { run, rcp: uses_rcp(run)? };
    let routes = topology.routes();
    let uplink = |host: HostId| LinkId(2 * host.0);
    let cores = 2 * topology.hosts.len() as u32;
    let mut world = World::new(Box::new(move |from, to| {
        let path = routes.path(from, to);
        let cores = path.into_iter().map(|step| LinkId(cores + step.index() as u32));
        std::iter::once(uplink(from)).chain(cores).chain([LinkId(uplink(to).0 + 1)]).collect()
    }));
    for site in &topology.hosts {
        let link = |rate| LinkConfig { rate, delay: site.access.delay, ..LinkConfig::default() };
        let seed = derive(run.seed, UPLINKS + u64::from(world.links()));
        let up = LinkConfig { overhead: site.access.overhead, seed, ..link(site.access.uplink) };
        let queue = builder.queue(&world, None, site.priorities, up.rate, run.queues.uplink_buffer)?;
        world.add_link(up, queue);
        let down = link(site.access.downlink);
        let priorities = topology.routers[site.router].priorities;
        let queue = builder.queue(&world, Some(site.router), priorities, down.rate, run.queues.buffer)?;
        world.add_link(down, queue);
    }
    for (at, core) in topology.cores.iter().enumerate() {
        for (direction, from) in [core.a, core.b].into_iter().enumerate() {
            let config = LinkConfig {
                rate: Some(core.rate),
                delay: core.delay,
                impairments: Impairments::loss(run.queues.loss),
                seed: derive(run.seed, LINKS + (2 * at + direction) as u64),
                ..LinkConfig::default()
            };
            let priorities = topology.routers[from].priorities;
            let queue = builder.queue(&world, Some(from), priorities, config.rate, run.queues.buffer)?;
            world.add_link(config, queue);
        }
    }
    let uplinks: Vec<LinkId> = (0..topology.hosts.len()).map(|host| uplink(HostId(host as u32))).collect();
    let mut agents = builder.agents(topology)?;
    for &uplink in &uplinks {
        world.add_host(agents(), uplink);
    }
    Ok((world, uplinks))
}

/// Whether the hosts of a run use RCP.
fn uses_rcp(run: &Run) -> Result<bool, SimulationError> {
    let mut kinds = run.used().map(|scheme| scheme.kind == SchemeKind::Rcp);
    let first = kinds.next().unwrap_or(false);
    match kinds.all(|kind| kind == first) {
        true => Ok(first),
        false => Err(SimulationError::Mixed(run.label.run.clone())),
    }
}

struct Builder<'a> {
    run: &'a Run,
    rcp: bool,
}

impl Builder<'_> {
    /// The queue of a link that leaves this router, or a host, which knows priorities or not.
    fn queue(
        &self,
        world: &World,
        router: Option<usize>,
        priorities: bool,
        rate: Option<Rate>,
        limit: QueueLimit,
    ) -> Result<ParcelQueue, SimulationError> {
        let seed = derive(self.run.seed, u64::from(world.links()) << 32);
        let queues = &self.run.queues;
        let queue = queues
            .queue(priorities, rate, limit, seed)
            .map_err(|fault| SimulationError::registered(queues.discipline.name(), fault))?;
        Ok(match rate {
            Some(rate) if self.rcp => {
                let config = kickass::rcp::RcpConfig::default();
                Box::new(RcpQueue::new(queue, config, rate, world.epoch(), seed))
            }
            Some(rate) if self.signals(router) => {
                let signals = self.run.queues.signals.clone();
                let config = KickAssConfig { signals, ..KickAssConfig::default() };
                Box::new(KickAssQueue::new(queue, config, rate, world.epoch(), seed))
            }
            _ => queue,
        })
    }

    /// Whether the queues of this router, or of hosts, signal rates.
    fn signals(&self, router: Option<usize>) -> bool {
        match &self.run.queues.kickass {
            KickAssSpec::All(all) => *all,
            KickAssSpec::Routers(routers) => router.is_some_and(|router| routers.contains(&router)),
        }
    }

    /// Makes one host after another.
    fn agents(
        &self,
        topology: &Topology,
    ) -> Result<impl FnMut() -> Box<dyn Agent + Send> + use<>, SimulationError> {
        let rcp = self.rcp;
        let config = Arc::new(host_config(self.run)?);
        let hosts = topology.hosts.len() as u32;
        let mut ids = (0..hosts).map(HostId);
        Ok(move || {
            let id = ids.next().expect("called once for each host");
            match rcp {
                true => Box::new(rcp::Host::new(rcp::HostConfig::default())) as Box<dyn Agent + Send>,
                false => Box::new(Host::new(id, config.clone())) as Box<dyn Agent + Send>,
            }
        })
    }
}

fn host_config(run: &Run) -> Result<HostConfig, SimulationError> {
    let real = run.used().any(|scheme| scheme.real_crypto);
    let crypto = if real { Crypto::Tls } else { Crypto::None };
    // A receiver accepts RLP from every sender that offers it.
    let mut receiver = common(1, None);
    receiver.rlp(RlpMode::Trust);
    receiver.initial_rtt(run.used().map(|scheme| scheme.initial_rtt).max().unwrap_or_default());
    let schemes = run.schemes.iter().map(|scheme| transport(scheme, run.seed));
    let schemes = schemes.collect::<Result<Vec<_>, _>>()?;
    let mut config = HostConfig::new(schemes, receiver, crypto, run.seed);
    config.uplink_backlog = run.queues.uplink_backlog;
    config.first_loss = run.queues.first_loss;
    for (scheme, of) in config.schemes.iter_mut().zip(&run.schemes) {
        scheme.shift = of.level.get();
    }
    Ok(config)
}

/// Settings of all connections; the peer acknowledges every `ack_every`-th packet, or after `ack_delay`.
fn common(ack_every: u32, ack_delay: Option<Duration>) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.segment_size(Some(SEGMENT));
    let mut acks = AckFrequencyConfig::default();
    // The threshold counts packets that may stay without an ACK.
    acks.ack_eliciting_threshold(VarInt::from_u32(ack_every - 1)).max_ack_delay(ack_delay);
    config.ack_frequency_config(Some(acks));
    // A flow is one stream; room for more costs memory.
    config.max_concurrent_uni_streams(1_u32.into()).max_concurrent_bidi_streams(0_u32.into());
    config
}

fn transport(scheme: &scenario::Scheme, seed: u64) -> Result<TransportConfig, SimulationError> {
    let mut config = common(scheme.ack_every, scheme.ack_delay);
    config.rlp(match (scheme.kind, scheme.mode) {
        (SchemeKind::Rc3, Mode::Trust) => RlpMode::Trust,
        (SchemeKind::Rc3, Mode::Guard) => RlpMode::Guard,
        _ => RlpMode::Off,
    });
    let congestion = &scheme.congestion;
    congestion
        .entry()
        .configure(congestion.parameters(), seed, &mut config)
        .map_err(|fault| SimulationError::registered(congestion.name(), fault))?;
    config.initial_rtt(scheme.initial_rtt);
    config.initial_packets(Some(u32::try_from(scheme.initial_window).unwrap_or(u32::MAX)));
    config.paced(scheme.paced).ladder(scheme.ladder);
    Ok(config)
}
